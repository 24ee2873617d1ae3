"""One bounded HTTP GET after another from one collector, over one connection."""

import http.client
from urllib.parse import urlsplit

from collector.clock import Clock

MAX_BYTES = 64 * 1024 * 1024
CHUNK = 1 << 16


class FetchError(Exception):
    """A target did not answer, in time, whole and with 200."""


class Target:
    """A collector's address, `http://host:port`; used by one thread at a time.

    Raises:
        FetchError: The address is not of that form.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None:
            raise FetchError(f"{url} is not a collector's address; it must be http://HOST:PORT")
        self.url = url
        self._host, self._port = parts.hostname, parts.port
        self._clock = clock
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, timeout: float) -> bytes | None:
        """The body of a 200; None for a 404.

        Args:
            path: With its query.
            timeout: Seconds for the whole answer, a slow one in small pieces included.

        Raises:
            FetchError: Anything else.
        """
        due = self._clock.monotonic() + timeout
        try:
            if self._connection is not None:
                try:
                    return self._get(path, due)
                except ConnectionError:  # the collector gave the idle connection up
                    self.close()
            return self._get(path, due)
        except FetchError:
            self.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise FetchError(f"{self.url}{path.partition('?')[0]}: {error!r}") from error

    def close(self) -> None:
        """Give the connection up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get(self, path: str, due: float) -> bytes | None:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port)
        connection = self._connection
        connection.timeout = max(0.01, due - self._clock.monotonic())
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        connection.request("GET", path)
        with connection.getresponse() as response:
            body = self._body(response, due)
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK:
            raise FetchError(f"{self.url} answers {response.status} {response.reason}")
        return body

    def _body(self, response: http.client.HTTPResponse, due: float) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES or self._clock.monotonic() > due:
                raise FetchError(f"{self.url}: the answer takes too long or is too large")
        if response.length:  # read1 does not complain about half a body
            raise FetchError(f"{self.url}: the answer ends {response.length} bytes early")
        return b"".join(chunks)
