"""What programs of PyTorch may import from Weft: `ScheduleEager1F1B` and `reshard`.

Nothing of it is needed to run over the testbed; both have no counterpart in torch.
"""

from weft.experiments.training.dtensors import reshard
from weft.experiments.training.pipelining import ScheduleEager1F1B

__all__ = ["ScheduleEager1F1B", "reshard"]
