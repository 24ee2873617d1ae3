"""The app as a server: Streamlit's own, with the headers that keep other pages and scripts out.

`streamlit run dashboard/serve/server.py` serves it. Streamlit sends neither a frame nor a content
policy.
https://www.w3.org/TR/CSP3 · https://owasp.org/www-project-secure-headers
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INDEX = Path(st.__file__).parent / "static" / "index.html"
"""Streamlit's one page; the rest of it are files and a socket."""
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def content_policy(index: str) -> str:
    """What the browser may load for a page of ours: our own files, and what a page holds itself.

    Scripts are our files and the inline ones of `index`, by their hash: no other text becomes one.
    Styles are made in the browser, pictures and the sealed report are data: addresses.
    """
    scripts = [_hash(text) for text in _INLINE.findall(index)]
    rules: Mapping[str, list[str]] = {
        "default-src": ["'self'"],
        "script-src": ["'self'", *scripts],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'", "data:"],
        "frame-src": ["'self'", "data:", "blob:"],
        "worker-src": ["'self'", "blob:"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(words)}" for name, words in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class ProtectiveHeaders:
    """ASGI middleware: the same headers on every answer, errors and files included."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = dict(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; sockets pass as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._app(scope, receive, protected)


HEADERS = {
    "Content-Security-Policy": content_policy(INDEX.read_text("utf-8")),
    "X-Frame-Options": "DENY",  # for browsers that do not know frame-ancestors
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
app = st.App(
    Path(__file__).with_name("app.py"),
    middleware=[Middleware(ProtectiveHeaders, headers=HEADERS)],
)
