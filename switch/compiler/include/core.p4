// The P4_16 core library: Weft's own interface file, after the appendix "P4 core library" of the
// specification, version 1.2.5.

#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,        // the packet ended before what was to be extracted
    NoMatch,               // no case of a select expression matched
    StackOutOfBounds,      // no such element in a header stack
    HeaderTooShort,        // more bits than a varbit field holds
    ParserTimeout,
    ParserInvalidArgument  // a value that the target cannot parse with
}

extern packet_in {
    // Read a header of fixed size.
    void extract<T>(out T hdr);
    // Read a header with one varbit field, which takes the given number of bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Read bits and leave the cursor where it is.
    T lookahead<T>();
    // Skip bits.
    void advance(in bit<32> sizeInBits);
    // The packet's length in bytes.
    bit<32> length();
}

extern packet_out {
    // Append a header, if it is valid; of a stack, union or struct, all of them.
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
