"""P4Runtime's messages are made of descriptors that stand in the package p4runtime."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc import status_pb2

from weft.base.errors import MachineError
from weft.switch import messages
from weft.switch.messages import p4data_pb2, p4info_pb2, p4runtime_pb2, p4types_pb2

ROOT = Path(__file__).resolve().parents[2]


class Package:
    """A p4runtime with these modules."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def locate_file(self, path: str) -> Path:
        return self._folder / path


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of ``p4/v1/p4data_pb2.py`` in a package p4runtime that has nothing else."""
    monkeypatch.setattr(messages, "distribution", lambda name: Package(tmp_path))
    (tmp_path / "p4" / "v1").mkdir(parents=True)
    return tmp_path / "p4" / "v1" / "p4data_pb2.py"


def serialised() -> bytes:
    described = FileDescriptorProto()
    p4data_pb2.P4Data.DESCRIPTOR.file.CopyToProto(described)
    return bytes(described.SerializeToString())


def test_messages_have_their_enums_and_values_and_hold_each_other() -> None:
    update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
    update.entity.table_entry.match.add(field_id=1).exact.value = b"\x01"
    assert p4runtime_pb2.Update.FromString(update.SerializeToString()) == update
    assert p4info_pb2.MatchField.MatchType.Name(p4info_pb2.MatchField.EXACT) == "EXACT"
    assert p4info_pb2.P4Info().type_info == p4types_pb2.P4TypeInfo()


def test_an_error_of_p4runtime_goes_into_googles_status_and_comes_out_again() -> None:
    status = status_pb2.Status()
    status.details.add().Pack(p4runtime_pb2.Error(canonical_code=5, message="no"))
    error = p4runtime_pb2.Error()
    assert status.details[0].Unpack(error) and error.message == "no"


def test_the_packages_own_code_is_not_imported_and_protobuf_is_compiled() -> None:
    script = (
        "import sys, weft.switch.messages, google.protobuf.internal.api_implementation as used; "
        "print(used.Type(), [name for name in sys.modules if name.split('.')[0] == 'p4'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "upb []\n"


@pytest.mark.parametrize(
    "text",
    [
        "serialized_pb={0!r}",
        "DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile({0!r})",
        "DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(\n    {0!r}\n)",
    ],
)
def test_a_descriptor_is_found_however_the_module_was_generated(text: str, module: Path) -> None:
    module.write_text(f"import nothing\n{text.format(serialised())}\n")
    assert messages._module("v1/p4data").P4Data(bool=True).bool


@pytest.mark.parametrize("text", ["", "serialized_pb=b'\\xff'", None])
def test_a_package_that_is_not_as_it_was_is_an_error_that_says_what_to_do(
    text: str | None, module: Path
) -> None:
    if text is not None:
        module.write_text(text)
    with pytest.raises(MachineError, match=r"p4/v1/p4data.proto: .*; install the packages of Weft"):
        messages._module("v1/p4data")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(messages, "distribution", missing)
    with pytest.raises(MachineError, match="package p4runtime does not have"):
        messages._module("v1/p4data")
