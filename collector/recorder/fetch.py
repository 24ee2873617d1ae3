"""One bounded HTTP GET after another from one collector, over one connection."""

import http.client
import time
from urllib.parse import urlsplit

from collector.contract.bounded_http import (
    CHUNK,
    Allowance,
    BoundedHTTPConnection,
    ExceededError,
    allowed,
)

MAX_BYTES = 64 * 1024 * 1024
AGAIN_SECONDS = (0.05, 0.1, 0.2)
"""After an answer that it is busy a collector is asked again, each time so much later."""


class FetchError(Exception):
    """A target did not answer, in time, whole and with 200."""


class BusyError(FetchError):
    """A target answered with 503: it can be asked again."""


class Target:
    """A collector's address, `http://host:port`; used by one thread at a time.

    Raises:
        FetchError: The address is not of that form.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None:
            raise FetchError(f"{url} is not a collector's address; it must be http://HOST:PORT")
        self.url = url
        self._host, self._port = parts.hostname, parts.port
        self._connection: BoundedHTTPConnection | None = None

    def get(self, path: str, timeout: float) -> bytes | None:
        """The body of a 200; None for a 404. Who is busy is asked again.

        Args:
            path: With its query.
            timeout: Seconds for all of it, a slow answer in small pieces included.

        Raises:
            FetchError: Anything else.
        """
        end = time.monotonic() + timeout
        try:
            with allowed(Allowance(timeout, MAX_BYTES)):
                for seconds in AGAIN_SECONDS:
                    try:
                        return self._get_anew(path)
                    except BusyError:
                        if time.monotonic() + seconds >= end:
                            raise
                        time.sleep(seconds)
                return self._get_anew(path)
        except FetchError:
            self.close()
            raise
        except ExceededError as error:
            self.close()
            raise FetchError(f"{self.url}: the answer takes too long or is too large") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise FetchError(f"{self.url}{path.partition('?')[0]}: {error!r}") from error

    def close(self) -> None:
        """Give the connection up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get_anew(self, path: str) -> bytes | None:
        if self._connection is not None:
            try:
                return self._get(path)
            except ConnectionError:  # the collector gave the idle connection up
                self.close()
        return self._get(path)

    def _get(self, path: str) -> bytes | None:
        if self._connection is None:
            self._connection = BoundedHTTPConnection(self._host, self._port)
        self._connection.request("GET", path)
        with self._connection.getresponse() as response:
            body = b"".join(iter(lambda: response.read1(CHUNK), b""))
            if response.length:  # read1 does not complain about half a body
                raise FetchError(f"{self.url}: the answer ends {response.length} bytes early")
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK:
            error = BusyError if response.status == http.client.SERVICE_UNAVAILABLE else FetchError
            raise error(f"{self.url} answers {response.status} {response.reason}")
        return body
