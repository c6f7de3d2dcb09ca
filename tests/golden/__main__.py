"""``python -m tests.golden``: see the package."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence

from tests.golden import recording

from weft.base.errors import WeftError

USAGE = """usage: python -m tests.golden             what differs from what is kept
       python -m tests.golden write       write what is kept anew
       python -m tests.golden show LINE   all results of a line like those of runs.txt:
                                          show allgather --algorithm ring"""


def main(arguments: Sequence[str]) -> int:
    """Compare, show or write; 1 if something differs."""
    try:
        return _main(list(arguments))
    except WeftError as error:
        print(f"golden: {error}", file=sys.stderr)
        return error.exit_status
    except recording.EndlessError as error:
        print(f"golden: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _main(arguments: list[str]) -> int:
    if arguments[:1] == ["show"] and arguments[1:]:
        print(json.dumps(recording.run(shlex.join(arguments[1:])).to_dict(), indent=1))
        return 0
    if arguments not in ([], ["write"]):
        print(USAGE, file=sys.stderr)
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
