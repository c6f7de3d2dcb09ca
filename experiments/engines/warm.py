"""Importing this loads what a worker needs: the server of `local` does so once, and its workers are
forked from it."""

import gc

from weft.experiments.engines.work import warm_up

warm_up()
gc.collect()
gc.freeze()  # the workers share it, and none looks through it again
