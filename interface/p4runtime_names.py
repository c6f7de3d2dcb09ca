"""The modules of P4Runtime that controllers import, for scripts that exist: names that lead to
Weft's messages, which are the same under every protobuf."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass as class_of

from weft.base.errors import InputError
from weft.switch import messages


def _device_config() -> Any:
    """Return the message ``p4.tmp.P4DeviceConfig`` of p4lang/PI, in which older controllers wrap a
    program; no package has it. Switches take it with and without."""
    file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp")
    message = file.message_type.add(name="P4DeviceConfig")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, name, kind in (
        (1, "reassign", kinds.TYPE_BOOL),
        (3, "device_data", kinds.TYPE_BYTES),
    ):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return class_of(pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig"))


def modules() -> dict[str, dict[str, Any]]:
    """Return what scripts import from each module, parents first."""
    return {
        "p4": {},
        "p4.config": {},
        "p4.config.v1": {},
        "p4.config.v1.p4types_pb2": vars(messages.p4types_pb2),
        "p4.config.v1.p4info_pb2": vars(messages.p4info_pb2),
        "p4.v1": {},
        "p4.v1.p4data_pb2": vars(messages.p4data_pb2),
        "p4.v1.p4runtime_pb2": vars(messages.p4runtime_pb2),
        "p4.v1.p4runtime_pb2_grpc": {"P4RuntimeStub": messages.stub_of},
        "p4.tmp": {},
        "p4.tmp.p4config_pb2": {"P4DeviceConfig": _device_config()},
    }


def install(contents: dict[str, dict[str, Any]]) -> None:
    """Let imports of these modules, in this process, lead to these contents."""
    for name, content in contents.items():
        module = sys.modules[name] = ModuleType(name)
        module.__dict__.update(content)
        if "." in name:
            parent, _, last = name.rpartition(".")
            setattr(sys.modules[parent], last, module)
        module.__path__ = []


def run_as_main(words: Sequence[str], command: str) -> None:
    """Run a script with its arguments as the main program.

    Raises InputError where there is none; ``command`` is how it is called.
    """
    if not words:
        raise InputError(f"write {command} SCRIPT.py ARGUMENTS")
    if not Path(words[0]).is_file():
        raise InputError(f"script {words[0]!r}: there is no such file")
    sys.argv = list(words)
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    runpy.run_path(words[0], run_name="__main__")


def run_controller(words: Sequence[str]) -> None:
    """Run a controller that imports the package p4runtime, with its arguments.

    In a clone it may import p4runtime-shell (``p4runtime_sh``), too, which has an environment of
    its own there.
    """
    install(modules())
    sys.path += map(str, Path(sys.prefix, "shell").glob("lib/python*/site-packages"))
    run_as_main(words, "python -m weft.compat.p4runtime")
