"""The fabric's program, compiled together with the features of other packages."""

import hashlib
import re
from pathlib import Path

from weft.agents.collectives.names import AGGREGATION_VALUES
from weft.base import files
from weft.base.cache import cache_dir
from weft.base.errors import InputError, refuse
from weft.controller.features.registry import FEATURES
from weft.switch.compiler import ProgramFiles, compile_cached
from weft.topo.fabric_program import fabric_macros, fabric_program

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def featured_program(values: int = AGGREGATION_VALUES, priorities: bool = False) -> ProgramFiles:
    """Return the fabric's program with all features, compiled for aggregation packets of so many
    values, and for ports with queues of several priorities or not.

    Raises `InputError` if a feature's file is not there, and `CompileError` if it is wrong.
    """
    folders, macros = program_options()
    own = fabric_macros(values, priorities)
    return compile_cached(fabric_program(), include_dirs=folders, defines={**own, **macros})


def program_options() -> tuple[list[Path], dict[str, str | None]]:
    """Return the folders of includes and the macros with which the fabric's program has all
    features; both are empty where no other package brings one.

    Raises `InputError` if a feature's file is not there.
    """
    features = FEATURES.others.values()
    if not features:
        return [], {}
    lines = []
    for feature in features:
        for what in ("name", "ingress", "egress"):
            value = getattr(feature, what)
            is_left_out = not value and what != "name"
            refuse(
                not is_left_out and not (isinstance(value, str) and _IDENTIFIER.fullmatch(value)),
                f"P4 feature {feature.name!r}: its {what} is {value!r}; let it be an identifier of "
                "P4: letters, digits and _",
            )
        if not feature.include.is_file():
            raise InputError(
                f"P4 feature {feature.name!r}: {str(feature.include)!r} is no file; name its P4 "
                "source"
            )
        lines.append(f'#include "{feature.include.resolve()}"')
    for place in ("ingress", "egress"):
        controls = [(each.name, getattr(each, place)) for each in features if getattr(each, place)]
        instances = " ".join(f"{control}() {name};" for name, control in controls)
        applied = " ".join(f"{name}.apply(hdr, meta, standard_metadata);" for name, _ in controls)
        lines += [
            f"#define {place.upper()}_FEATURE_INSTANCES {instances}",
            f"#define {place.upper()}_FEATURES {applied}",
        ]
    text = "\n".join([*lines, ""])
    folder = cache_dir() / "features" / hashlib.sha256(text.encode()).hexdigest()[:16]
    files.make_folder(folder)
    files.write_whole(folder / "weft_features.p4", text)
    return [folder], {"WEFT_FEATURES": None}
