"""The records of the image of a switch's tables, one array of words; offsets in it are in words."""

from typing import Annotated

from weft.base.jit import Record, record, words_in
from weft.switch.engine.dataplane.layout import Words


@record
class ImageHead(Record):
    """Begin an image; behind it are the offsets of the tables' and the value sets' directories."""

    multicast: int
    """Offset of the directory of multicast groups, which are looked up as in an exact table."""
    clone: int
    """Offset of the directory of clone sessions."""
    spare: Annotated[Words, 2]


@record
class Directory(Record):
    """A table of the image; behind it are its groups, by falling priority."""

    default: int
    """Offset of the default `ActionRecord`, or 0."""
    key_words: int
    groups: int
    """How many rows of `EntryGroup` follow, each with its masks."""
    linear: int
    """How many entries are looked at one by one, as the table has a range key."""
    linear_offset: int
    """Offset of the linear entries, by falling priority: each has the low and the high bound, or
    the value and the mask, of each key word, then an `EntryRecord`."""
    ranges: int
    """Offset of a word for each of their key words: 0, RANGE or RANGE_GOES_ON."""


@record
class EntryGroup(Record):
    """Lead to the entries with one mask in common; behind it is the mask of each key word."""

    bits: int
    """The bits of its hash."""
    slots: int
    """Offset of 1 << bits slots, each of them the key words and an `EntryRecord`."""
    priority: int
    """The greatest one."""


@record
class EntryRecord(Record):
    """What an entry leads to; it is behind the entry's key."""

    priority: int
    record: int
    """Offset of its `ActionRecord` or `GroupRecord`; 0 means that the slot is free."""
    index: int
    """Its cell in direct counters and meters."""


@record
class ActionRecord(Record):
    """Name an action to run; behind it are the words of its parameters."""

    action: int
    """The action's code, or GROUP if this is a `GroupRecord`."""


@record
class GroupRecord(Record):
    """Begin a selector's group; behind it is the offset of each member's `ActionRecord`."""

    kind: int
    """GROUP."""
    members: int


@record
class ReplicationRecord(Record):
    """Begin a multicast group or clone session; behind it are rows of `ReplicaRecord`."""

    replicas: int
    keep: int
    """How many bytes of a clone are kept; 0 means all."""


@record
class ReplicaRecord(Record):
    """Where a copy of a multicast group or clone session goes."""

    port: int
    instance: int


FIRST_TABLE = words_in(ImageHead)
DIRECTORY_WORDS = words_in(Directory)
GROUP_WORDS = words_in(EntryGroup)
ENTRY_WORDS = words_in(EntryRecord)
ACTION_WORDS = words_in(ActionRecord)
GROUP_RECORD_WORDS = words_in(GroupRecord)
REPLICATION_WORDS = words_in(ReplicationRecord)

RANGE = 1  # the first word of a range
RANGE_GOES_ON = 2

GROUP = -2
