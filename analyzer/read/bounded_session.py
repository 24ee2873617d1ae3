"""A session of requests that reads each answer at once, and only up to a bound."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util import Retry, parse_url

from lockstep.collector.contract.bounded_http import CHUNK, BoundedMixin, EncodingError, unpacked

REASON_BYTES = 1 << 16
"""Of an answer that is a refusal no more is read."""


class _Connection(BoundedMixin, HTTPConnection):
    pass


class _SecureConnection(BoundedMixin, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _Pool, "https": _SecurePool}


class BoundedAdapter(HTTPAdapter):
    """Every answer is whole when it is given out; asked inside `bounded_http.allowed` only.

    Besides what requests raises: an ExceededError of `bounded_http`.

    Args:
        address: Where to connect to, in place of where the name in a URL leads; None = there.
        named: As of requests'.
    """

    def __init__(self, address: str | None = None, **named: Any) -> None:
        self._address = address
        super().__init__(**named)

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: bool | str, cert: Any = None
    ) -> tuple[Any, Any]:
        """As requests', to the address; the certificate is to be that of the name."""
        host, named = super().build_connection_pool_key_attributes(request, verify, cert)
        if self._address is not None:
            if host["scheme"] == "https":
                named = {**named, "server_hostname": host["host"], "assert_hostname": host["host"]}
            host = {**host, "host": self._address}
        return host, named

    def init_poolmanager(self, *words: Any, **named: Any) -> None:
        """As requests', with bounded connections."""
        super().init_poolmanager(*words, **named)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, proxy: str, **named: Any) -> PoolManager:
        """Likewise."""
        manager: PoolManager = super().proxy_manager_for(proxy, **named)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def send(self, request: requests.PreparedRequest, **named: Any) -> requests.Response:  # type: ignore[override]
        """Ask, and read: all of a 200, the beginning of anything else."""
        if self._address is not None:
            request.headers.setdefault("Host", urlsplit(request.url or "").netloc)
        response = super().send(request, **{**named, "stream": True})
        try:
            parts = unpacked(_parts(response.raw), response.headers.get("Content-Encoding", ""))
            body = b"".join(parts if response.status_code == requests.codes.ok else _few(parts))
        except HTTPError as error:
            raise requests.exceptions.ChunkedEncodingError(error, request=request) from error
        except EncodingError as error:
            raise requests.exceptions.ContentDecodingError(error, request=request) from error
        finally:
            # Who was read to the end has given his connection back already.
            response.raw.close()
        response._content, response._content_consumed = body, True
        return response


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Where to; None = nowhere, also where that is no address: the answer stands as it is.

        requests looks at it even where redirects are not followed, and raises what it meets.
        """
        try:
            target: str | None = super().get_redirect_target(resp)
            if target is not None:
                parse_url(urljoin(resp.url, target))
        except ValueError:
            return None
        return target


def session(
    retry: Retry | int = 0, headers: Mapping[str, str] | None = None, address: str | None = None
) -> requests.Session:
    """A session that has BoundedAdapters only, and asks for no packing but gzip."""
    made = _Session()
    for scheme in ("http://", "https://"):
        made.mount(scheme, BoundedAdapter(address, max_retries=retry))
    made.headers["Accept-Encoding"] = "gzip"
    made.headers.update(headers or {})
    return made


def _parts(raw: Any) -> Iterator[bytes]:
    yield from raw.stream(CHUNK, decode_content=False)


def _few(parts: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for part in parts:
        yield part
        size += len(part)
        if size > REASON_BYTES:
            return
