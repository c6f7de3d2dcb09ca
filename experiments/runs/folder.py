"""The results folder of a run, and the files that are written to it."""

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from weft.base import files
from weft.base.errors import InputError, MachineError, refuse
from weft.experiments.plots.gantt import NAMES as GANTT_FILES
from weft.experiments.plots.gantt import gantt_files
from weft.experiments.report import render
from weft.experiments.results.document import DOCUMENT
from weft.experiments.results.results import Results
from weft.experiments.runs.points import PointFiles
from weft.experiments.runs.traces import TRACE_FILES

REPORT = "report.html"


class ResultsFolder:
    """A results folder that is written. Under sudo, what is made of it belongs to whoever called
    sudo."""

    def __init__(self, path: Path, advice: str = "name another with --out") -> None:
        """``advice`` says what to do where the folder cannot be written."""
        self._advice = advice
        refuse(
            str(path) in ("", "."),
            "the results folder has no name: name one with --out DIR",
        )
        self.path = path.absolute()
        self.captures = self.path / "pcap"
        self._made: list[Path] = []
        self._older: set[Path] = set()
        """Files of an older run, which are removed once this run's document has replaced the older
        one."""

    def make(self, *, captures: bool, traces: bool, points: PointFiles | None = None) -> None:
        """Make the folder if it is not there, and make sure that it can be written to.

        Captures, traces and points of an older run are removed if this run makes some.
        """
        probe = self.path / f".{secrets.token_hex(4)}"
        try:
            self._made += files.make_folder(self.path)
            files.write_whole(probe, b"")
            files.remove(probe)
            if captures:
                self._made += files.make_folder(self.captures)
            if points is not None:
                self._made += points.make()
            older = {
                *((self.path / name, False) for name in _old_plots(self.path)),
                *((self.path / name, traces) for name in TRACE_FILES),
                *((path, captures) for path in self._older_captures()),
            }
            self._older = {path for path, replaced in older if not replaced}
            for path, replaced in older:
                if replaced:
                    files.remove(path)
        except OSError as error:
            self.close()
            raise InputError(
                f"results folder {str(self.path)!r} cannot be written: {error.strerror}; "
                f"{self._advice}"
            ) from None

    def _older_captures(self) -> list[Path]:
        """Return an older run's captures. Those of one network are in the folder itself, those of
        several in folders in it. There are none in a folder that somebody has replaced by a link.
        """
        folder = self.captures
        try:
            return [
                folder / each
                for name in files.names_in(folder)
                for each in (name, *(f"{name}/{inner}" for inner in files.names_in(folder / name)))
                if each.endswith(".pcap")
            ]
        except OSError:
            return []

    def write(self, results: Results) -> tuple[list[Path], str]:
        """Write the document, the plots and the report; see `write_files`."""
        return self.write_files(_documents(results))

    def write_files(self, documents: Iterable[tuple[str, bytes | str]]) -> tuple[list[Path], str]:
        """Write files by their names, and remove an older run's other files.

        Returns the files that were written, and, if some were not, which and why.
        """
        written: list[Path] = []
        missing: list[str] = []
        reasons: dict[str, None] = {}
        for name, content in documents:
            try:
                files.write_whole(self.path / name, content)
                written.append(self.path / name)
            except OSError as error:
                missing.append(name)
                reasons[error.strerror or str(error)] = None
        if missing:
            return written, (
                f"{', '.join(missing)} could not be written to {str(self.path)!r}: "
                f"{'; '.join(reasons)}; make room, or name another folder with --out"
            )
        for path in self._older.difference(written):
            with contextlib.suppress(OSError):
                files.remove(path)
        return written, ""

    def put(self, documents: Iterable[tuple[str, bytes | str]]) -> list[Path]:
        """Write files by their names, and return them. Raises MachineError if one cannot be
        written."""
        written, problem = self.write_files(documents)
        refuse(problem, problem, MachineError)
        return written

    def keep(self, results: Results) -> None:
        """Write the document alone, if that can be done: the run ends before its time."""
        with contextlib.suppress(OSError):
            results.write(self.path)

    def close(self) -> None:
        """Remove the folders that were made and stayed empty."""
        for folder in reversed(self._made):
            files.remove_empty_folder(folder)


@contextlib.contextmanager
def claimed(path: Path | None) -> Iterator[ResultsFolder | None]:
    """Yield a results folder that can be written to, there already or not; None for None. Raises
    InputError."""
    if path is None:
        yield None
        return
    folder = ResultsFolder(path, "name another folder")
    folder.make(captures=False, traces=False)
    with contextlib.closing(folder):
        yield folder


def _documents(results: Results) -> Iterator[tuple[str, bytes | str]]:
    """Return, by name, the files that results become; each is made when it is asked for."""
    yield DOCUMENT, results.text()
    if results.plots:
        from weft.experiments.plots.draw import draw_plots

        yield from draw_plots(results)
    yield from gantt_files(results)
    yield REPORT, render(results)


def _old_plots(folder: Path) -> list[str]:
    """Return the files of an older run's plots, which its results name."""
    try:
        plots = Results.read(folder).plots
    except InputError:
        return []
    names = [f"{plot.name}.{ending}" for plot in plots for ending in ("svg", "png")]
    return [*names, *GANTT_FILES]
