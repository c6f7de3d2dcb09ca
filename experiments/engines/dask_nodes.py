"""Dask's scheduler, nannies and workers without the web server that each scheduler and worker of
Dask otherwise opens, dashboard or not: it speaks plain HTTP to whoever connects.

Imported only where Dask is installed, here and by the processes of workers.
"""

from typing import Any

from distributed import Nanny, Scheduler, Worker


class QuietScheduler(Scheduler):
    """A scheduler that listens to nodes and clients alone."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open none; Dask has no setting for this."""


class QuietWorker(Worker):
    """A worker that listens to nodes and clients alone."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open none; Dask has no setting for this."""


class QuietNanny(Nanny):
    """A nanny whose process is a worker of this kind."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, worker_class=QuietWorker, **options)
