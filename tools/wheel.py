"""``./weft wheel``: a wheel of this checkout with the machine code of Weft's own kernels in it.

The code is for levels of processors (`weft.base.processors`). It is made by the files that go into
the wheel, in a copy of the checkout, without what git ignores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from weft.base import files
from weft.base.cache import CHECKOUT
from weft.base.errors import MachineError, WeftError
from weft.base.machine_code import SHIPPED, file_of
from weft.base.processors import Level, levels, levels_met


def copy_checkout(source: Path, to: Path) -> list[str]:
    """Copy what belongs to a checkout, links as links; return the files' names. Raises
    MachineError where git does not know."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        raise MachineError(
            f"what belongs to {source} cannot be told: git ls-files: {listed.stderr.strip()}"
        )
    names = [name for name in listed.stdout.split("\0") if os.path.lexists(source / name) and name]
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, to / name, follow_symlinks=False)
    return names


def add_kernels(source: Path, level: Level) -> None:
    """Compile the kernels of a copy of a checkout for a level of processors, into the package."""
    package = source / "src" / "weft"
    with TemporaryDirectory(prefix="weft-wheel-") as cache:
        made = {"WEFT_CACHE": cache, "PYTHONPATH": str(package.parent), **level.settings}
        _run(source, made, "-m", "weft", "prepare")
        _run(source, made, "-c", "from weft.agents.collectives import sums; sums.prepare()")
        for library in sorted(Path(cache).glob("*/*/*.library")):
            place = library.relative_to(cache).as_posix().rpartition("-")[0]
            target = package / SHIPPED.name / file_of(place, level.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(library, target)


def build(folder: Path) -> Path:
    """Build the wheel, and return where it is. Raises MachineError if that cannot be done here."""
    for level in levels():
        if level not in levels_met():
            raise MachineError(
                f"code for {level.name} cannot be made here: this processor lacks it"
            )
    with TemporaryDirectory(prefix="weft-wheel-") as scratch:
        source, made = Path(scratch, "source"), Path(scratch, "made")
        copy_checkout(CHECKOUT, source)
        for level in levels():
            print(f"weft: compiling for {level.name}", file=sys.stderr)
            add_kernels(source, level)
        platform = sysconfig.get_platform().replace("-", "_") if levels() else "any"
        _run(
            source, {}, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps",
            "--no-build-isolation", f"--config-settings=--build-option=--plat-name={platform}",
            "--wheel-dir", str(made), str(source),
        )  # fmt: skip
        (wheel,) = made.glob("weft-*.whl")
        files.make_folder(folder)
        files.write_whole(folder / wheel.name, wheel.read_bytes())
        return folder / wheel.name


def _run(source: Path, environment: dict[str, str], *arguments: str) -> None:
    """Run Python in a copy of a checkout. Raises MachineError if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=source, env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise MachineError(f"{' '.join(arguments[:4])} failed:\n{done.stdout.rstrip()}")


def main() -> int:
    """Build, and print where the wheel is."""
    parser = argparse.ArgumentParser("weft wheel", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=CHECKOUT / "dist", metavar="FOLDER")
    try:
        print(build(parser.parse_args().folder.absolute()))
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
