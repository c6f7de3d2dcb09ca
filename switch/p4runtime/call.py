"""What the handlers of P4Runtime's calls use of a call, which may come by gRPC or from within the
process."""

from collections.abc import Callable
from typing import Any, NoReturn, Protocol


class RpcCall(Protocol):
    """A call that is being answered: gRPC's ``ServicerContext`` is one."""

    def code(self) -> Any:
        """Return the ``grpc.StatusCode`` that the call was ended with, None before."""

    def cancel(self) -> object:
        """End the call: its client takes no more of the answer."""

    def set_trailing_metadata(self, metadata: tuple[tuple[str, Any], ...]) -> None:
        """Set the pairs of key and value that are sent with the status."""

    def abort(self, code: Any, details: str) -> NoReturn:
        """End the call with a ``grpc.StatusCode`` and its message, by raising an exception."""


class StreamCall(RpcCall, Protocol):
    """A call whose client may go while it is answered."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Return whether ``callback`` will be called at the end of the call, which may be over."""
