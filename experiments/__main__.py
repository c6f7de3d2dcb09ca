"""``python -m experiments`` is the ``weft`` command."""

from __future__ import annotations

import os
import sys

# Python 3.10 cannot be told not to look for modules in the current folder first, where a file of
# the user's would take the place of the library's module of that name.
_checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if sys.path[0] != _checkout and os.path.exists(sys.path[0]) and os.path.samefile(sys.path[0], "."):
    del sys.path[0]

from experiments.cli import main  # noqa: E402

main()
