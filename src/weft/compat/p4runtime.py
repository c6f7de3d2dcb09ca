"""The package p4runtime, by its names, for controllers that import it.

``python -m weft.compat.p4runtime SCRIPT.py`` runs a script as it is, whose imports of
``p4.v1.p4runtime_pb2`` and the like lead to Weft's messages.
"""

import sys

from weft.base.errors import WeftError
from weft.interface.p4runtime_names import run_controller

if __name__ == "__main__":
    try:
        run_controller(sys.argv[1:])
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
