"""One kept channel to the kubelet's pod-resources socket; grpcio is imported when it is opened."""

import os
import stat
from pathlib import Path
from typing import Any

from collector.reading import SourceError

METHOD = "/v1.PodResourcesLister/List"
DEADLINE_SECONDS = 1.0
MAX_ANSWER_BYTES = 16 << 20
"""As much as the kubelet's own client takes (its defaultPodResourcesMaxSize)."""
RECONNECT_MILLISECONDS = 500
"""gRPC would wait up to two minutes before it looks for a restarted kubelet again."""
_REASONS = {"DEADLINE_EXCEEDED": "timeout", "UNAVAILABLE": "unreachable"}


class Kubelet:
    """Asks for the list of pod resources, over one channel as long as the calls succeed or fail."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: Any = None
        self._list: Any = None

    def list(self) -> bytes:
        """The bytes of a ListPodResourcesResponse.

        Raises:
            SourceError: There is no usable socket, or no answer within DEADLINE_SECONDS.
        """
        self._check_socket()
        # Imported here: 15 MB that a node without a kubelet does not have to pay.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it tells us what failed; no need to log
        try:
            import grpc
        except ImportError as error:
            raise SourceError("missing", "grpcio is not installed (extra: collector)") from error

        if self._channel is None:
            self._open(grpc)
        try:
            answer: bytes = self._list(b"", timeout=DEADLINE_SECONDS)
        except grpc.RpcError as error:
            code = error.code().name
            reason = _REASONS.get(code, "refused")
            raise SourceError(reason, f"{self._socket}: {code}: {_sentence(error)}") from error
        return answer

    def close(self) -> None:
        """Give the channel up."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _open(self, grpc: Any) -> None:
        options = (
            ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
            ("grpc.initial_reconnect_backoff_ms", RECONNECT_MILLISECONDS),
            ("grpc.min_reconnect_backoff_ms", RECONNECT_MILLISECONDS),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_MILLISECONDS),
            ("grpc.enable_http_proxy", 0),
        )
        # The address as a plain path: in a URI some characters of a folder would mean something.
        self._channel = grpc.insecure_channel(f"unix:{self._socket.absolute()}", options)
        self._list = self._channel.unary_unary(METHOD)  # no serializers: bytes in, bytes out

    def _check_socket(self) -> None:
        """Name in one word what gRPC tells at length."""
        try:
            mode = self._socket.lstat().st_mode
        except PermissionError as error:
            raise SourceError("permission", f"{self._socket}: {error.strerror}") from error
        except OSError as error:
            raise SourceError("missing", f"{self._socket}: {error.strerror}") from error
        if not stat.S_ISSOCK(mode):
            raise SourceError("not_socket", f"{self._socket} is not a socket")
        if not os.access(self._socket, os.R_OK | os.W_OK):
            raise SourceError("permission", f"{self._socket}: this user may not connect to it")


def _sentence(error: Any) -> str:
    """The details of a failed call, on one line and not too long."""
    return " ".join(str(error.details() or "no details").split())[:200]
