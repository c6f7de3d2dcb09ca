"""``python -m tests.golden``: see the package."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from tests.golden import recording


def main(arguments: Sequence[str]) -> int:
    """Compare, show or write; 1 if something differs."""
    if arguments[:1] == ["show"]:
        print(json.dumps(recording.run(" ".join(arguments[1:])).to_dict(), indent=1))
        return 0
    if arguments not in ([], ["write"]):
        print("usage: python -m tests.golden [write | show LINE]", file=sys.stderr)
        return 2
    differ = 0
    for kind in recording.ENTRIES:
        entries = dict(recording.all_entries(kind))
        if arguments == ["write"]:
            recording.write(kind, entries)
            continue
        kept = recording.read(kind)
        for line in sorted({*kept, *entries}):
            if kept.get(line) != entries.get(line):
                differ += 1
                print(f"{kind}: {line}\n  was {kept.get(line)}\n  is  {entries.get(line)}")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
