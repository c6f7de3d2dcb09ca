"""What generated programs call: table look-up, random numbers, fields of any length, meters, notes.

This source is used twice, compiled and plain; see ``weft.switch.engine.build``.
"""

from weft.switch.engine.dataplane.image_layout import (
    DIRECTORY_WORDS,
    ENTRY_WORDS,
    GROUP_RECORD_WORDS,
    GROUP_WORDS,
    RANGE,
    Directory,
    EntryGroup,
    EntryRecord,
    GroupRecord,
)
from weft.switch.engine.dataplane.layout import (
    OUTBOX_RECORD,
    Bucket,
    Context,
    MeterCell,
    Octets,
    OutboxRecord,
    SwitchRecord,
    Words,
)
from weft.switch.engine.dataplane.trace_layout import KIND_BITS, RECORD, TraceHead, TraceRecord
from weft.switch.engine.native.compiled import (
    address_of,
    inline,
    inner,
    int64_view,
    less64,
    load64,
    modulo64,
    multiply64,
    release_fence,
    shift_right64,
    store64,
    unsigned64,
    word64,
)

HASH_MULTIPLIER = -7046029254386353131  # 2**64 / golden ratio, as a signed word


@inline
def hash_word(state: int, word: int) -> int:
    """Return the hash of a look-up with one more key word mixed into it."""
    mixed = multiply64(state ^ word, HASH_MULTIPLIER)
    return mixed ^ shift_right64(mixed, 29)


@inner
def lookup_word(image: Words, directory: int, key: int) -> int:
    """Look a key of one word up in the table of a directory; return the image's offset of the best
    `EntryRecord`, or -1."""
    best = -1
    best_priority = -1
    at = directory + DIRECTORY_WORDS
    for _ in range(Directory(address_of(image, directory)).groups):
        group = EntryGroup(address_of(image, at))
        if best_priority >= group.priority:
            break
        masked = key & image[at + GROUP_WORDS]
        bits = group.bits
        slots = group.slots
        slot = shift_right64(hash_word(0, masked), 64 - bits)
        while True:
            place = slots + slot * (1 + ENTRY_WORDS)
            entry = EntryRecord(address_of(image, place + 1))
            if entry.record == 0:
                break
            if image[place] == masked:
                if entry.priority > best_priority:
                    best = place + 1
                    best_priority = entry.priority
                break
            slot = (slot + 1) & ((1 << bits) - 1)
        at += GROUP_WORDS + 1
    return best


@inner
def lookup_words(image: Words, directory: int, keys: Words) -> int:
    """Do as `lookup_word` for a key of several words, or of none, or with ranges."""
    head = Directory(address_of(image, directory))
    words = head.key_words
    best = -1
    best_priority = -1
    at = directory + DIRECTORY_WORDS
    for _ in range(head.groups):
        group = EntryGroup(address_of(image, at))
        if best_priority >= group.priority:
            break
        masks = at + GROUP_WORDS
        state = 0
        for k in range(words):
            state = hash_word(state, keys[k] & image[masks + k])
        bits = group.bits
        slots = group.slots
        slot = shift_right64(state, 64 - bits)
        while True:
            place = slots + slot * (words + ENTRY_WORDS)
            entry = EntryRecord(address_of(image, place + words))
            if entry.record == 0:
                break
            same = True
            for k in range(words):
                if image[place + k] != keys[k] & image[masks + k]:
                    same = False
            if same:
                if entry.priority > best_priority:
                    best = place + words
                    best_priority = entry.priority
                break
            slot = (slot + 1) & ((1 << bits) - 1)
        at += GROUP_WORDS + words
    return first_in_range(image, directory, keys, best)


@inner
def first_in_range(image: Words, directory: int, keys: Words, best: int) -> int:
    """Return the first linear entry that matches, or ``best`` if there is none."""
    head = Directory(address_of(image, directory))
    words = head.key_words
    ranges = head.ranges
    entry = head.linear_offset
    for _ in range(head.linear):
        same = True
        low_open = True  # whether the words of a range so far equal those of its bound
        high_open = True
        for k in range(words):
            first = image[entry + 2 * k]
            second = image[entry + 2 * k + 1]
            kind = image[ranges + k]
            if kind == 0:
                if keys[k] & second != first:
                    same = False
                continue
            if kind == RANGE:
                low_open = True
                high_open = True
            if (low_open and less64(keys[k], first)) or (high_open and less64(second, keys[k])):
                same = False
            low_open = low_open and keys[k] == first
            high_open = high_open and keys[k] == second
        if same:
            return entry + 2 * words
        entry += 2 * words + ENTRY_WORDS
    return best


@inline
def choose(image: Words, record: int, hash_value: int) -> int:
    """Return the record that a group's hash chooses, or -1 if the group is empty."""
    count = GroupRecord(address_of(image, record)).members
    if count == 0:
        return -1
    return image[record + GROUP_RECORD_WORDS + modulo64(hash_value, count)]  # type: ignore[no-any-return]


@inner
def draw(state: SwitchRecord) -> int:
    """Return the next 64 random bits of a switch (splitmix64), as a word."""
    word = word64(state.random + HASH_MULTIPLIER)
    state.random = word
    word = multiply64(word ^ shift_right64(word, 30), -4658895280553007687)
    word = multiply64(word ^ shift_right64(word, 27), -7723592293110705685)
    return word ^ word64(shift_right64(word, 31))


@inline
def random_between(state: SwitchRecord, low: int, high: int) -> int:
    """Return a random number from ``low`` to ``high``, both included (unsigned words, low <=
    high)."""
    span = word64(high - low + 1)
    return unsigned64(draw(state)) if span == 0 else low + modulo64(draw(state), unsigned64(span))


@inner
def read_varbit(
    phv: Words, slot: int, words: int, data: Octets, at: int, skip: int, length: int
) -> None:
    """Read ``length`` bits that begin ``skip`` bits (0 to 7) behind ``data[at]`` to a varbit field.

    Its words are at ``phv[slot]``, first bit most significant, its length behind them.
    """
    for k in range(words):
        left = length - 64 * k
        word = 0
        if left > 0:
            word = load64(data, at + 8 * k)
            if skip > 0:
                word = (word << skip) | (data[at + 8 * k + 8] >> (8 - skip))
            if left < 64:
                word = word & ~((1 << (64 - left)) - 1)
        phv[slot + k] = word64(word)
    phv[slot + words] = length


@inner
def write_varbit(data: Octets, at: int, skip: int, phv: Words, slot: int, length: int) -> None:
    """Write a varbit field ``skip`` bits behind ``data[at]``; the bits before it stay."""
    for k in range((length + 63) >> 6):
        word = phv[slot + k]
        place = at + 8 * k
        if skip > 0:
            before = word64((data[place] >> (8 - skip)) << (64 - skip))
            store64(data, place, before | shift_right64(word, skip))
            data[place + 8] = (word << (8 - skip)) & 0xFF
        else:
            store64(data, place, word)


@inner
def put_varbit(data: Octets, position: int, phv: Words, slot: int, length: int) -> int:
    """Write a varbit field at a bit position of zeroed bytes; return the position behind it."""
    for i in range(length):
        if (phv[slot + (i >> 6)] >> (63 - (i & 63))) & 1:
            at = position + i
            data[at >> 3] |= 0x80 >> (at & 7)
    return position + length


@inner
def put_bits(data: Octets, position: int, value: int, width: int) -> None:
    """Write the low ``width`` bits (at most 64) of a value at a bit position of zeroed bytes."""
    for i in range(width):
        if (value >> (width - 1 - i)) & 1:
            at = position + i
            data[at >> 3] |= 0x80 >> (at & 7)


@inner
def fill_bucket(bucket: Bucket, elapsed_us: int) -> None:
    """Add the tokens of a time to a bucket; millionths of a token are kept for the next time."""
    rate = bucket.rate
    missing = bucket.burst - bucket.tokens
    seconds = elapsed_us // 1000000
    micros = elapsed_us % 1000000
    each_us = rate // 1000000
    millionths = micros * (rate % 1000000) + bucket.remainder
    bucket.remainder = millionths % 1000000
    full = rate > 0 and seconds > missing // rate
    if full or (each_us > 0 and micros > missing // each_us):
        bucket.tokens = bucket.burst
    else:
        more = seconds * rate + micros * each_us + millionths // 1000000
        bucket.tokens = min(bucket.tokens + more, bucket.burst)


@inner
def run_meter(state: SwitchRecord, cell: int, size: int, length: int) -> int:
    """Return the colour of a packet of ``length`` bytes that takes ``size`` tokens: 0 for green,
    1 for yellow, 2 for red. Count packets and bytes by colour."""
    meter = MeterCell(state.meters, cell)
    colour = mark(meter, (state.now_ns - state.epoch_ns) // 1000, size)
    meter.counts[2 * colour] += 1
    meter.counts[2 * colour + 1] += length
    return colour


@inner
def mark(meter: MeterCell, now_us: int, size: int) -> int:
    """Run a meter, and return the colour of a packet.

    It is a two-rate three-colour marker, colour-blind (RFC 2698), as BMv2's: time is in whole
    microseconds; a red packet takes no tokens, a yellow one only of the peak bucket. Without rates
    all packets are green.
    """
    if meter.has_rates == 0:
        return 0
    elapsed_us = now_us - meter.last_us
    if elapsed_us > 0:
        meter.last_us = now_us
        fill_bucket(meter.peak, elapsed_us)
        fill_bucket(meter.committed, elapsed_us)
    if meter.peak.tokens < size:
        return 2
    meter.peak.tokens -= size
    if meter.committed.tokens < size:
        return 1
    meter.committed.tokens -= size
    return 0


@inner
def write_note(
    state: SwitchRecord, kind: int, packet: int, row: int, a: int, b: int, c: int, d: int
) -> None:
    """Write a record of a switch's trace, of a packet's number and row, if there is room."""
    head = TraceHead(state.trace_head)
    end = head.end
    if end + RECORD > head.capacity:
        head.lost += 1
        return
    note = TraceRecord(state.trace_head + end * 8)
    note.kind = kind + (head.version << KIND_BITS)
    note.packet = packet
    note.row = row
    note.time_ns = state.now_ns
    note.a = a
    note.b = b
    note.c = c
    note.d = d
    head.end = end + RECORD


@inner
def open_record(state: SwitchRecord, kind: int, subject: int, count: int, time_ns: int) -> int:
    """Begin a record of ``count`` words for the controller; return where they go, or -1 if
    there is no room."""
    size = state.outbox_words
    start = state.outbox_head
    if start + OUTBOX_RECORD + count - state.outbox_tail > size:
        state.events_lost += 1
        return -1
    head = OutboxRecord(state.outbox + 8 * (start & (size - 1)))
    head.kind = kind
    head.time_ns = time_ns
    head.subject = subject
    head.words = count
    return start + OUTBOX_RECORD


@inner
def put_record(state: SwitchRecord, place: int, word: int) -> None:
    """Write one word of a record."""
    size = state.outbox_words
    int64_view(state.outbox, size)[place & (size - 1)] = word


@inner
def close_record(context: Context, state: SwitchRecord, end: int) -> None:
    """Let the controller see a record, whose words end before ``end``."""
    release_fence()
    state.outbox_head = end
    if state.outbox_waits == 0:
        state.outbox_waits = 1
        context.events_wait = 1
