"""How RAS is spoken to: one question over a socket, with a deadline for everything."""

import re
import socket
from collections.abc import Callable

from lockstep.collector.config import Address
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.nccl.ras import document, text
from lockstep.collector.sources.nccl.ras.status import Status

CONNECT_SECONDS = 1.0
QUERY_SECONDS = 10.0
GATHER_SECONDS = 5
"""What RAS may take to gather the state of all ranks (its own default)."""
MAX_BYTES = 16 << 20
"""Of one document: 1,000 ranks in eight communicators each need 5 MB."""
MAX_LINE = 4096
_CHUNK = 1 << 18

Monotonic = Callable[[], float]
_SERVER = re.compile(r"SERVER PROTOCOL \d{1,9}", re.ASCII)


class Refused(SourceError):  # noqa: N818 - nothing listens: not an error
    """Nothing listens at the address."""


class Connection:
    """A connection to RAS after the greeting.

    Args:
        deadline: Monotonic time after which every call fails.

    Raises:
        SourceError: Nobody there, no answer in time, or what answers is not RAS.
    """

    def __init__(self, address: Address, monotonic: Monotonic, deadline: float) -> None:
        self._address = address
        self._monotonic = monotonic
        self._deadline = deadline
        self._buffer = b""
        try:
            self.socket = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        except ConnectionRefusedError as error:
            raise Refused("refused", f"nothing listens at {address}") from error
        except TimeoutError as error:
            raise SourceError(
                "timeout", f"{address} did not accept a connection in {CONNECT_SECONDS:g} s;"
                " is there a firewall?",
            ) from error  # fmt: skip
        except (OSError, UnicodeError, ValueError) as error:
            raise SourceError("unreachable", f"{address}: {error}") from error
        try:
            answer = self.command("CLIENT PROTOCOL 2")
            if not _SERVER.fullmatch(answer):
                raise SourceError("protocol", f"{address} answers {answer[:60]!r}; RAS does not")
        except BaseException:
            self.socket.close()
            raise

    def command(self, line: str) -> str:
        """The line that answers a command, without its end.

        Raises:
            SourceError: No whole line in time.
        """
        self._send(line)
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_LINE:
                raise SourceError("protocol", f"{self._address} sends a line without end")
            chunk = self._receive()
            if not chunk:
                raise SourceError("truncated", f"{self._address} hung up after {line!r}")
            self._buffer += chunk
        answer, _, self._buffer = self._buffer.partition(b"\n")
        return answer.decode("utf-8", "replace").rstrip("\r")

    def document(self, line: str) -> str:
        """Everything that answers a command, until the server hangs up.

        Raises:
            SourceError: It does not end in time, is too large, or nothing.
        """
        self._send(line)
        chunks, size = [self._buffer], len(self._buffer)
        while chunk := self._receive():
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                raise SourceError(
                    "too_large", f"the answer of {self._address} exceeds {MAX_BYTES >> 20} MiB"
                )
        if size == 0:
            raise SourceError("truncated", f"{self._address} hung up after {line!r}")
        return b"".join(chunks).decode("utf-8", "replace")

    def rest(self) -> bytes:
        """What came after the last answer's line."""
        rest, self._buffer = self._buffer, b""
        return rest

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def _send(self, line: str) -> None:
        try:
            self.socket.settimeout(self._left())
            self.socket.sendall(f"{line}\n".encode())
        except TimeoutError as error:
            raise self._late() from error
        except OSError as error:
            raise SourceError("io", f"{self._address}: {error}") from error

    def _receive(self) -> bytes:
        try:
            self.socket.settimeout(self._left())
            return self.socket.recv(_CHUNK)
        except TimeoutError as error:
            raise self._late() from error
        except OSError as error:
            raise SourceError("io", f"{self._address}: {error}") from error

    def _left(self) -> float:
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> SourceError:
        return SourceError("timeout", f"{self._address} did not answer in time")


def ask(address: Address, monotonic: Monotonic, seconds: float = QUERY_SECONDS) -> Status:
    """What RAS at the address says now, in JSON where it can, else in text.

    Raises:
        SourceError: It cannot be asked, or its answer makes no sense.
    """
    connection = Connection(address, monotonic, monotonic() + seconds)
    try:
        # An ERROR to TIMEOUT leaves the server's own default, which is the same.
        connection.command(f"TIMEOUT {GATHER_SECONDS}")
        in_json = speaks_json(connection)
        answer = connection.document("VERBOSE STATUS")
    finally:
        connection.close()
    return document.parse(answer) if in_json else text.parse(answer)


def speaks_json(connection: Connection) -> bool:
    """Ask for JSON; NCCL before 2.28.7 does not know it.

    Raises:
        SourceError: No answer in time.
    """
    return connection.command("SET FORMAT json") == "OK"
