"""The lowered program: what BMv2 knows, before it is written as JSON or P4Info.

Expressions are over flat fields of header instances, with BMv2's operators. Arithmetic is on
integers of any size, so what wraps around in P4 carries a mask here. Truth values and numbers are
two kinds, as in BMv2 (``d2b`` and ``b2d`` convert).

All of it is named from here, as in ``ir.Branch``.
"""

from weft.switch.compiler.ir.code import *  # noqa: F403
from weft.switch.compiler.ir.expressions import *  # noqa: F403
from weft.switch.compiler.ir.objects import *  # noqa: F403
from weft.switch.compiler.ir.program import *  # noqa: F403
