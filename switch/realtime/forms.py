"""In which forms the programs of a process's switches run, and what people are told of it."""

import threading
from collections.abc import Callable

from weft.base.errors import RunError
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.realtime.compiling import Compiling

PLAIN = "the plain form, as Python, which takes some thousand packets a second"


class Forms:
    """The forms of programs that run at once, in the plain form, and go over to machine code.

    Args:
        running: returns the names of switches that have a program, each with its program.
        go_over: lets a program go on as the machine code at an address.
        say: tells people what is wrong.
        note: tells them what goes as it should: once for all switches.
    """

    def __init__(
        self,
        running: Callable[[], list[tuple[str, Pipeline]]],
        go_over: Callable[[Pipeline, int], None],
        say: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self._running, self._go_over = running, go_over
        self._say, self._note = say, note
        self._compiling = Compiling(self._made, self._failed)
        self._telling = threading.Lock()
        self._noted = False
        """Whether people know that programs run in the plain form for now."""

    def start(self) -> None:
        """Begin to have programs compiled."""
        self._compiling.start()

    def stop(self) -> None:
        """Have nothing more compiled."""
        self._compiling.stop()

    def want(self, pipeline: Pipeline) -> None:
        """Have a program compiled that runs in the plain form meanwhile; returns at once."""
        pipeline.on_failure = lambda error: self._say(
            f"{self._who(pipeline)}: the program's plain form fails, which loses packets: {error!r}"
        )
        self._compiling.want(pipeline)

    def wait(self) -> None:
        """Wait until all programs have been compiled. Raises RunError if one that a switch runs
        cannot be."""
        self._compiling.wait()
        for _, pipeline in self._running():
            if not pipeline.compiled:
                raise RunError(
                    f"{self._who(pipeline)}: the program runs in {PLAIN}, as it could not be "
                    "compiled"
                )

    def tell(self, switch: str, pipeline: Pipeline) -> None:
        """Tell people of a program that a switch runs from now on, if it runs in the plain form."""
        with self._telling:
            if pipeline.not_compiled:
                self._tell_not_compiled(switch, pipeline)
            elif not (pipeline.compiled or self._noted):
                self._noted = True
                self._note(f"programs run in {PLAIN}, until their machine code is made")

    def _made(self, pipeline: Pipeline, address: int) -> None:
        self._go_over(pipeline, address)
        with self._telling:
            self._tell_if_all_went_over()

    def _failed(self, pipeline: Pipeline, why: str) -> None:
        with self._telling:
            pipeline.not_compiled = why
            if names := self._who(pipeline):  # else it is said once a switch runs it
                self._tell_not_compiled(names, pipeline)
            self._tell_if_all_went_over()

    def _tell_not_compiled(self, names: str, pipeline: Pipeline) -> None:
        self._say(
            f"{names}: the program runs in {PLAIN}, for good, as it cannot be compiled: "
            f"{pipeline.not_compiled}"
        )

    def _tell_if_all_went_over(self) -> None:
        programs = [pipeline for _, pipeline in self._running()]
        plain = [pipeline for pipeline in programs if not pipeline.compiled]
        if self._noted and all(pipeline.not_compiled for pipeline in plain):
            self._noted = False
            if len(plain) < len(programs):
                others = " other" if plain else ""
                self._note(f"all{others} programs run as machine code from here on")

    def _who(self, pipeline: Pipeline) -> str:
        """Return the names of the switches that run a program."""
        return ", ".join(name for name, program in self._running() if program is pipeline)
