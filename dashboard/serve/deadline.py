"""HTTP connections that bring no whole request are closed: uvicorn itself waits for ever.

uvicorn has `timeout_keep_alive`, which ends with the first byte that comes, and no limit for the
first request of a connection (https://www.uvicorn.org/server-behavior/#timeouts).
"""

import asyncio

from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""From the connection, or the last response, to the end of a request; as in our other servers."""


class DeadlineProtocol(H11Protocol):
    """uvicorn's protocol with `REQUEST_SECONDS` for each request; WebSockets leave it behind."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The time for the first request begins."""
        super().connection_made(transport)
        self._keep_time()

    def data_received(self, data: bytes) -> None:
        """A request that is whole, or that becomes a WebSocket, stops the time."""
        super().data_received(data)
        self._keep_time()

    def on_response_complete(self) -> None:
        """The time for the next request begins, where it did not come already."""
        super().on_response_complete()
        self._keep_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to wait for."""
        self._stop()
        super().connection_lost(exc)

    def _keep_time(self) -> None:
        upgraded = self.transport.get_protocol() is not self
        answering = self.cycle is not None and not self.cycle.response_complete
        if upgraded or self.transport.is_closing() or (answering and not self.cycle.more_body):
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def install() -> None:
    """Makes it the protocol of this process: Streamlit starts uvicorn, and passes no option on."""
    HTTP_PROTOCOLS["auto"] = f"{__name__}:{DeadlineProtocol.__name__}"
