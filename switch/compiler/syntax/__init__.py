"""The syntax tree of a P4_16 program.

The parser builds it; the checker writes its findings into the fields marked "checker": the type of
each expression, its value if it is known at compile time, and what each name and call refers to.
Sections that docstrings name are those of the P4_16 specification.

All nodes are named from here, as in ``syntax.Block``.
"""

from weft.switch.compiler.syntax.blocks import *  # noqa: F403
from weft.switch.compiler.syntax.expressions import *  # noqa: F403
from weft.switch.compiler.syntax.statements import *  # noqa: F403
from weft.switch.compiler.syntax.tables import *  # noqa: F403
from weft.switch.compiler.syntax.targets import *  # noqa: F403
from weft.switch.compiler.syntax.tree import *  # noqa: F403
from weft.switch.compiler.syntax.types import *  # noqa: F403
from weft.switch.compiler.syntax.variables import *  # noqa: F403
