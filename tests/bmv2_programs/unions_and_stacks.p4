#include <core.p4>
#include <v1model.p4>
header A { bit<8> k; bit<8> v; }
header B { bit<8> k; bit<16> v; }
header_union U { A a; B b; }
header T { bit<8> op; bit<8> n; bit<16> x; bit<32> e; bit<32> l; }
struct H { T t; U[3] us; U u; A[4] st; A[4] su; A z;}
struct M { bit<8> m; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
  state start { p.extract(h.t); transition select(h.t.n) { 0: accept; 1: one; 2: stack; 3: adv; 4: shorter; _: loop; } }
  state one { p.extract(h.u.a); transition select(h.u.a.k) { 5: two; default: accept; } }
  state two { p.extract(h.u.b); transition accept; }
  state stack { p.extract(h.st.next); transition select(h.st.last.k) { 0x80 &&& 0x80: accept; 0x10 &&& 0xf0: ver; _: stack; } }
  state ver { verify(h.st.last.v != 3, error.NoMatch); verify(h.st.lastIndex != 1, error.ParserInvalidArgument); transition stack; }
  state adv { p.advance((bit<32>)h.t.x); p.extract(h.z); transition accept; }
  state shorter { p.extract<A>(_); A q = p.lookahead<A>(); h.t.x[15:8] = q.v; h.t.x[7:0] = q.k; p.extract(h.z); transition accept; }
  state loop { bit<8> k = p.lookahead<bit<8>>(); transition select(k) { 1: la; 2: lb; default: accept; } }
  state la { p.extract(h.us.next.a); transition loop;}
  state lb { p.extract(h.us.next.b); transition loop; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  apply {
    s.egress_spec = 2;
    bit<8> i = h.t.x[7:0];
    if (s.parser_error == error.PacketTooShort) h.t.e = 1; else if (s.parser_error == error.StackOutOfBounds) h.t.e = 2; else if (s.parser_error == error.NoMatch) h.t.e = 3; else if (s.parser_error == error.ParserInvalidArgument) h.t.e = 4; else if (s.parser_error != error.NoError) h.t.e = 5;
    if (h.t.op == 1) { h.us.pop_front(1); }
    else if (h.t.op == 2) { h.us.push_front(1); h.us[0].a.setValid(); h.us[0].a.k = 7; }
    else if (h.t.op == 3) { h.u.b.setValid(); h.u.b.k = 3; }
    else if (h.t.op == 4) { if (h.u.isValid()) h.t.x = 1; h.us[1] = h.us[0]; }
    else if (h.t.op == 5) { h.st[i & 3].setValid(); h.st[i & 3].k = 9; }
    else if (h.t.op == 6) { h.u = h.us[1]; }
    else if (h.t.op == 7) { h.su = h.st; h.st[0].setInvalid(); }
    else if (h.t.op == 8) { h.st.pop_front(1); }
    else if (h.t.op == 9) { h.st.pop_front(3); }
    else if (h.t.op == 10) { h.st.push_front(2); }
    else if (h.t.op == 11) { h.st.push_front(4); h.st[2].setValid(); }
    else if (h.t.op == 12) { h.z.v = 9; h.z.setValid(); h.z.k = 1; }
    else if (h.t.op == 13) { h.st[0].setInvalid(); h.st[0].setValid(); }
    else if (h.t.op == 14) { h.st[0].setValid(); h.st[1].setValid(); h.st[2].setValid(); h.st[3].setValid(); h.t.x = (bit<16>)h.st[i & 3].v;  }
    else if (h.t.op == 15) { h.us.pop_front(2); }
    else if (h.t.op == 16) { h.us.push_front(2); }
    else if (h.t.op == 17) { h.us[2].b.setInvalid(); h.us[1].a.setValid(); h.us[1].b.setValid(); }
    else if (h.t.op == 18) { h.st[i & 3].setInvalid(); }
    else if (h.t.op == 20) { if (h.us[0] == h.us[1]) h.t.x = 5; if (h.st[0] == h.st[1]) h.t.x = h.t.x + 256; if (h.st == h.su) h.t.x = h.t.x + 512; }
    else if (h.t.op == 21) { h.u.a = h.st[0]; }
    else if (h.t.op == 22) { h.us[0].a = h.us[1].a; }
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { h.t.l = s.packet_length; } }
control C(inout H h, inout M m) { apply {} }
control D(packet_out p, in H h) { apply { p.emit(h.t); p.emit(h.us); p.emit(h.u); p.emit(h.st); p.emit(h.su); p.emit(h.z);} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
