"""uvicorn, with bounds that it leaves to a proxy: nobody keeps a place by saying nothing."""

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from collector.config import Address
from lockstep.api.door import Door

HEAD_SECONDS = 10.0
"""From the connection, or the last answer, to the next whole head of a request."""
HEAD_BYTES = 1 << 14
MOST_CONNECTIONS = 128
BACKLOG = 128
STOP_SECONDS = 5
"""For answers under way when the server ends."""


class Impatient(H11Protocol):
    """Closes a connection whose next request is not there in time.

    uvicorn itself waits for ever for a first request, and for one that comes a byte at a time.
    """

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """As of asyncio.Protocol."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """As of asyncio.Protocol."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()  # a head is whole: the door has a limit for the body

    def on_response_complete(self) -> None:
        """As of H11Protocol."""
        super().on_response_complete()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """As of asyncio.Protocol."""
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._forget()
        if not self.transport.is_closing():
            self._limit = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class Server:
    """Listens from construction on; serves from `start` to `stop`, from a thread.

    Args:
        app: Behind its door.
        address: Where to listen.
        certificate, key: PEM files of TLS; None = plain HTTP.

    Raises:
        OSError: The address cannot be listened on, or a file of TLS is none.
    """

    def __init__(
        self, app: Door, address: Address, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        config = uvicorn.Config(
            app, http=Impatient, ws="none", lifespan="off", log_level="warning", log_config=None,
            access_log=False, server_header=False, proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS, backlog=BACKLOG,
            h11_max_incomplete_event_size=HEAD_BYTES, timeout_keep_alive=int(HEAD_SECONDS),
            timeout_graceful_shutdown=STOP_SECONDS, ssl_certfile=certificate,
            ssl_keyfile=key,
        )  # fmt: skip
        config.load()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address.host, address.port))
            self._socket.listen(BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._on_end: Callable[[], None] = lambda: None

    @property
    def address(self) -> Address:
        """The address in use, with the port that was found if 0 was asked for."""
        return Address(*self._socket.getsockname()[:2])

    def start(self, on_end: Callable[[], None]) -> None:
        """Serve from a thread; `on_end` is called once it serves no more."""
        self._on_end = on_end
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, finish those under way, close."""
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS + 2)
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._on_end()
