"""Documents of YAML whose values are known by their lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, MachineError
from weft.base.placed import PlacedDocument, inside

MOST_VALUES = 100_000
"""The most values of a document; names that stand for others multiply them."""


def placed_yaml(text: str, path: Path) -> PlacedDocument:
    """Return the document that a text of YAML describes. Raises InputError for what is none, and
    where a key is there twice."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise MachineError(
            f"{path} is YAML, and PyYAML is not installed: pip install 'weft[labs]'"
        ) from None
    problem = f"{path} cannot be read: it is not valid YAML"
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        reading = _Reading(path, yaml.SafeLoader(""))
        content = reading.value(node, "") if node is not None else None
    except yaml.YAMLError as error:
        said = " ".join(str(error).replace('in "<unicode string>", line', "at line").split())
        raise InputError(f"{problem}: {said}") from None
    except RecursionError:
        raise InputError(f"{problem}: it is nested too deeply") from None
    return PlacedDocument(path, content, reading.lines)


class _Reading:
    """The values of a document as they are read, with their lines."""

    def __init__(self, path: Path, loader: Any) -> None:
        self._path, self._loader = path, loader
        self.lines: dict[str, int] = {}
        self._left = MOST_VALUES

    def value(self, node: Any, place: str) -> Any:
        """Return the value of a node; a scalar that is neither text nor a number as it is
        written."""
        self._left -= 1
        if self._left < 0:
            raise InputError(f"{self._path}: it has more than {MOST_VALUES:,} values")
        self.lines.setdefault(place, node.start_mark.line + 1)
        if node.id == "sequence":
            return [self.value(each, f"{place}[{index}]") for index, each in enumerate(node.value)]
        if node.id == "mapping":
            return dict(self._pairs(node, place))
        plain = self._loader.construct_object(node)
        return plain if plain is None or isinstance(plain, (bool, int, float)) else str(node.value)

    def _pairs(self, node: Any, place: str) -> Iterator[tuple[str, Any]]:
        self._loader.flatten_mapping(node)
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise InputError(f"{self._path}:{line}: a key is a list or an object: name it")
            name = str(key.value)
            here = inside(place, name)
            if name in seen:
                raise InputError(
                    f"{self._path}:{line}: {here} is there twice: see line {seen[name]}"
                )
            seen[name] = self.lines[here] = line
            yield name, self.value(value, here)
