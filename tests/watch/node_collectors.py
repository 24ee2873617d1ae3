"""Collectors of a constructed hang: `GET /dumps` as a node would answer, or as it should not."""

import contextlib
import json
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.hang_programs import Case

OLDER = b"there are /metrics, /healthz, /readyz and /ops\n"


class Quiet(ThreadingHTTPServer):
    """Who asks may be gone before it is answered; another test would read that on its stderr."""

    def handle_error(self, *_: object) -> None:
        """Nothing."""


@dataclass
class Answering:
    """What a collector says; changed while it is asked.

    Attributes:
        asked: Paths that it was asked for.
    """

    body: bytes = b""
    status: int = 200
    seconds: float = 0.0
    asked: list[str] = field(default_factory=list)
    target: tuple[str, str] = ("lockstep", "")

    @property
    def page(self) -> str:
        return f"http://{self.target[1]}/metrics"


@contextlib.contextmanager
def collectors(*answers: Answering) -> Iterator[list[Answering]]:
    """Serve them, each on a port of its own."""
    with contextlib.ExitStack() as stack:
        for one in answers:
            stack.enter_context(_served(one))
        yield list(answers)


@contextlib.contextmanager
def _served(one: Answering) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            one.asked.append(self.path)
            time.sleep(one.seconds)
            self.send_response(one.status)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(one.body)

        def log_message(self, *_: object) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    one.target = ("lockstep", f"127.0.0.1:{server.server_port}")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def rank_part(rank: int, dump: bytes | None, /, **more: Any) -> dict[str, Any]:
    """One rank of an answer."""
    packed = None if dump is None else b64encode(zlib.compress(dump)).decode()
    return {
        "rank": rank, "node": f"node-{rank}", "world": 4, "attempt": 0,
        "written": None if dump is None else 1_758_000_100.0, "why": "", "dump": packed,
        "phase": "backward", "progress_age": 100.0, **more,
    }  # fmt: skip


def answer(
    parts: Sequence[Mapping[str, Any]], run: str = "gpt-1", facts: Sequence[object] = ()
) -> bytes:
    """An answer to `/dumps`."""
    tree = {"schema_version": 1, "run": run, "ranks": list(parts), "facts": list(facts)}
    return json.dumps(tree).encode()


def of_case(case: Case, ranks: Sequence[int], run: str = "gpt-1", **more: Any) -> bytes:
    """What the node of these ranks answers when the run hangs as the case has it."""
    parts = [
        rank_part(
            rank,
            json.dumps(case.trees[rank]).encode() if rank in case.trees else None,
            written=case.written.get(rank),
            world=case.layout.world,
            **more,
        )
        for rank in ranks
    ]
    facts = [
        {"rank": rank, "kind": kind, "value": value}
        for rank, kind, value in case.facts
        if rank in ranks
    ]
    return answer(parts, run, facts)
