"""A server that answers as its test says, byte for byte: endlessly, drop by drop, or packed."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

Answer = Callable[[], Iterable[bytes]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def endless(start: bytes, piece: bytes) -> Iterator[bytes]:
    """A beginning, and then the same for as long as anybody listens."""
    yield start
    block = piece * max(1, (1 << 16) // len(piece))
    while True:
        yield block


def drops(text: bytes, seconds: float = 0.05) -> Iterator[bytes]:
    """A byte at a time."""
    for place in range(len(text)):
        yield text[place : place + 1]
        time.sleep(seconds)


@contextlib.contextmanager
def serving(answer: Callable[[bytes], Iterable[bytes]]) -> Iterator[str]:
    """URL of a server.

    Args:
        answer: First bytes of a request -> what it answers; then the connection ends.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20.0)
            for part in answer(connection.recv(1 << 16)):
                if ended.is_set():
                    return
                connection.sendall(part)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
