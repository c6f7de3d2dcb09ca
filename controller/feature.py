"""P4 features that other packages bring: an include of the fabric's program, and its planner."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.base import files
from weft.base.cache import cache_dir
from weft.base.entry_points import brought
from weft.base.errors import refuse
from weft.controller.entities import Entity
from weft.topo.fabric_program import AGGREGATION_VALUES, fabric_macros, fabric_program
from weft.topo.network import Topology

if TYPE_CHECKING:
    from weft.switch.compiler import ProgramFiles


class Feature:
    """Something that every switch of a fabric does besides.

    Another package brings an instance by an entry point in the group ``weft.p4_features``. Entries
    are named as the P4Info has them: table ``t`` of a control that is applied at ingress as feature
    ``x`` is ``FabricIngress.x.t``.
    """

    name: str
    """An identifier of P4."""
    include: Path
    """A P4_16 file that defines the controls; it may use what p4/include/headers.p4 defines."""
    ingress = ""
    """A control with the parameters (inout headers_t, inout metadata_t, inout
    standard_metadata_t), applied to packets that are forwarded, before their path is looked up."""
    egress = ""
    """The same, applied to packets that leave, before they are counted."""

    def plan(
        self, topology: Topology, seed: int, without: Collection[str]
    ) -> Mapping[str, Sequence[Entity]]:
        """Return what every switch holds for it, by the switch's name. ``without``: names of links
        that have failed."""
        return {}


def brought_features() -> list[Feature]:
    """Return all that other packages bring, by name."""
    found = brought("weft.p4_features", "include", "plan")
    return [found[name] for name in sorted(found)]


def featured_program(values: int = AGGREGATION_VALUES) -> "ProgramFiles":
    """Return the fabric's program with all features, compiled, for aggregation packets of so many
    values.

    Raises `InputError` for a feature whose file is not there, `CompileError` for one that is wrong.
    """
    from weft.switch.compiler import compile_cached  # planning alone does without

    folders, macros = program_options()
    return compile_cached(
        fabric_program(), include_dirs=folders, defines={**fabric_macros(values), **macros}
    )


def program_options() -> tuple[list[Path], dict[str, str | None]]:
    """Folders of includes and macros with which the fabric's program has all features; none where
    there are no features.

    Raises `InputError` for a feature whose file is not there.
    """
    features = brought_features()
    if not features:
        return [], {}
    lines = []
    for feature in features:
        refuse(
            not feature.include.is_file(),
            f"P4 feature {feature.name!r}: {str(feature.include)!r} is no file; name its P4 source",
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
