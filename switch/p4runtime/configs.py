"""Set- and GetForwardingPipelineConfig on a device; the caller holds ``device.lock``."""

import json
from functools import lru_cache
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.control.errors import ControlError
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.amounts import check_text
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime import reconcile
from weft.switch.p4runtime.device import Device, Notes, PipelineConfig, StagedConfig
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.received import bmv2_json
from weft.switch.p4runtime.refusals import Refusal, invalid, not_found
from weft.switch.p4runtime.requests import write_one

_SET = p4runtime_pb2.SetForwardingPipelineConfigRequest
_GET = p4runtime_pb2.GetForwardingPipelineConfigRequest

_WITH_CONFIG = {
    _SET.VERIFY,
    _SET.VERIFY_AND_SAVE,
    _SET.VERIFY_AND_COMMIT,
    _SET.RECONCILE_AND_COMMIT,
}


MOST_VALUES = 1 << 21
"""The most values of one JSON: as Python's objects they take fifty times the size of their text.
`fabric.p4` has 80,000."""


def set_config(device: Device, request: Any) -> None:
    """Verify, save or commit a pipeline config; raises Refusal or the engine's errors."""
    action = request.action
    if action == _SET.COMMIT:
        refuse(
            request.HasField("config"),
            "COMMIT takes no config: it commits the one saved before",
            invalid,
        )
        _commit_staged(device)
        return
    refuse(
        action not in _WITH_CONFIG,
        f"action {action} is none of VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, "
        "COMMIT, RECONCILE_AND_COMMIT",
        invalid,
    )
    if not request.HasField("config"):
        raise invalid(f"{_SET.Action.Name(action)} needs a config")
    config, text = _read_config(device, request.config)
    match action:
        case _SET.VERIFY:
            device.switch.load_program(text, load="verify")
        case _SET.RECONCILE_AND_COMMIT if device.running is not None:
            _reconcile(device, config, text)
        case _:
            device.switch.load_program(text, load="save")
            if action == _SET.VERIFY_AND_SAVE:
                device.staged = StagedConfig(config, stand_in(device.switch, text, config.info))
            else:
                _commit(device, config)


def _commit(device: Device, config: PipelineConfig) -> None:
    """Let the program run that the switch has saved; nothing has been written to it."""
    device.switch.commit_program()
    reconcile.free_entries(device.switch, config.info)
    device.running, device.staged, device.running_notes = config, None, Notes()


def build(device: Device, request: Any) -> None:
    """Build the program of a request without ``device.lock``, as that may take long.

    Others are served meanwhile, and ``set_config`` finds the program built. Raises as
    ``set_config`` does.
    """
    if request.action in _WITH_CONFIG and request.HasField("config"):
        text, _ = _program(request.config)
        device.switch.load_program(text, load="verify")


def _commit_staged(device: Device) -> None:
    """Let the saved program run, and carry out again what was written since it was saved."""
    staged = device.staged
    if staged is None:
        raise not_found("COMMIT: no config was saved before; use VERIFY_AND_SAVE first")
    _commit(device, staged.config)
    for update in staged.updates:
        write_one(device, p4runtime_pb2.Update.FromString(update))
    device.switch.publish()


def stand_in(control: SwitchControl, bmv2_json: str, info: ProgramInfo) -> SwitchControl:
    """Return a switch that has the ports of another and runs a program, but forwards nothing."""
    dataplane = Dataplane(1, max(control.ports, default=0) + 1, packets=64, plain=True)
    for port in control.ports:
        dataplane.set_port(0, port, Queue())
    made = dataplane.control(0, control.name)
    made.load_program(bmv2_json, load="save")
    made.commit_program()
    reconcile.free_entries(made, info)
    return made


def _reconcile(device: Device, config: PipelineConfig, text: str) -> None:
    """Change the program and keep what was written; raise INVALID_ARGUMENT if that does not fit the
    program."""
    trial = stand_in(device.switch, text, config.info)
    old, info = device.switch, device.running_info
    missing = set(device.running_notes.digests.learners) - set(config.info.digests.by_name)
    if missing:
        raise invalid(f"RECONCILE_AND_COMMIT: the program has no digest {min(missing)!r}")
    try:
        reconcile.check_fits(old, info, trial)
    except ControlError as error:
        raise invalid(
            f"RECONCILE_AND_COMMIT: what is in the switch does not fit: {error}"
        ) from None
    device.switch.load_program(text, load="save")
    writes = reconcile.taken(old, info)
    device.switch.commit_program(reconcile=True)
    reconcile.free_entries(device.switch, config.info)
    device.running, device.staged = config, None
    reconcile.give_back(device.switch, writes)


def _read_config(device: Device, message: Any) -> tuple[PipelineConfig, str]:
    text, program = _program(message)
    try:
        return PipelineConfig(
            message, ProgramInfo(message.p4info, program, device.translations)
        ), text
    except Refusal:
        _read_program.cache_clear()
        raise


def _program(message: Any) -> tuple[str, Any]:
    """Return the program in a config, as text and as JSON; raises Refusal (INVALID_ARGUMENT)."""
    try:
        return _read_program(message.p4_device_config)
    except ControlError as error:
        raise invalid(f"p4_device_config: {error}") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise invalid(f"p4_device_config: not BMv2 JSON ({error})") from error


@lru_cache(maxsize=1)
def _read_program(device_config: bytes) -> tuple[str, Any]:
    """Return a program as text and as JSON; every switch of a fabric is given the same program."""
    data = bmv2_json(device_config)
    check_text(data)
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    refuse(values > MOST_VALUES, f"about {values} values, {MOST_VALUES} at most", ValueError)
    text = data.decode()
    # No document of Weft's, but a client's message; its object is looked into where it is built.
    program = json.loads(text, parse_constant=_refuse)
    if not isinstance(program, dict):
        raise ValueError("which is one object")
    return text, program


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number in JSON")


def get_config(device: Device, request: Any) -> Any:
    """Return the config that entities refer to, or the parts of it that are asked for.

    Raises FAILED_PRECONDITION if there is none. The specification allows an empty answer, too; this
    is what BMv2's server says, and clients push their config when they are told so.
    """
    wanted = request.response_type
    refuse(
        wanted not in _GET.ResponseType.values(),
        f"response_type {wanted} is none of the four",
        invalid,
    )
    current = device.config
    config = p4runtime_pb2.ForwardingPipelineConfig()
    config.CopyFrom(current.message)
    if wanted not in (_GET.ALL, _GET.P4INFO_AND_COOKIE):
        config.ClearField("p4info")
    if wanted not in (_GET.ALL, _GET.DEVICE_CONFIG_AND_COOKIE):
        config.ClearField("p4_device_config")
    return p4runtime_pb2.GetForwardingPipelineConfigResponse(config=config)
