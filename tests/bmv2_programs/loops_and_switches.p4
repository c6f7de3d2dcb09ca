#include <core.p4>
#include <v1model.p4>
header T { bit<8> op; bit<8> n; bit<16> x; bit<32> r; }
struct H { T t; }
struct M { bit<8> m; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
  value_set<bit<8>>(4) vs;
  state start { p.extract(h.t); log_msg("op {}", {h.t.op}); transition select(h.t.op) { vs: accept; default: accept; } }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
  register<bit<32>>(4) reg; counter(4, CounterType.bytes) cnt;
  action loop_() { for (bit<8> i = 0; i < h.t.n; i = i + 1) { if (i == 5) break; if (i == 2) continue; h.t.r = h.t.r + 3; } }
  action early() { h.t.x = 1; exit; }
  action ret() { if (h.t.n == 3) { h.t.x = 7; return; } h.t.x = 9; }
  action tern() { h.t.x = h.t.n > 4 ? 16w5 : 16w6; reg.write((bit<32>)h.t.n[1:0], h.t.r); reg.read(h.t.r, 1); cnt.count(2); }
  table t { key = { h.t.op: exact; h.t.n: ternary; } actions = { loop_; early; ret; tern; NoAction; }
    const entries = { (1, _): loop_(); (2, _): early(); (3, _): ret(); (4, _): tern(); (5, 1 &&& 1): NoAction(); } default_action = NoAction(); }
  apply {
    s.egress_spec = 2;
    switch (t.apply().action_run) { loop_: { h.t.x = h.t.x + 100; } tern: {} default: { h.t.r = 0x55; } }
    for (bit<8> j = 0; j < h.t.n; j = j + 1) { h.t.r = h.t.r + 1; if (j == 9) break; }
    switch (h.t.n) { 1: { h.t.x = h.t.x + 1000; } 2: 3: { h.t.x = h.t.x + 2000; } default: {} }
  }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C(inout H h, inout M m) { apply {} }
control D(packet_out p, in H h) { apply { p.emit(h.t); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
