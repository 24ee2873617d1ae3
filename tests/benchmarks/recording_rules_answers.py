"""A stand-in that answers the reader's queries as a Prometheus with 100,000 ranks would."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from lockstep.analyzer.rules.recording_rules.signals import SIGNALS
from lockstep.analyzer.rules.recording_rules.survey import MOST

RUNS, PP, TP, DP = 8, 16, 8, 98
RANKS = RUNS * PP * TP * DP
"""100,352: the layout of eight runs of 12,544 GPUs."""

Vector = list[tuple[dict[str, str], float]]


@contextlib.contextmanager
def answering() -> Iterator[tuple[str, list[int]]]:
    """(URL, bytes of each answer so far)."""
    sent: list[int] = []
    bodies: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            [query, *_] = parse_qs(urlsplit(self.path).query).get("query", [""])
            if not query:  # who asks what server this is
                self.send_error(404)
                return
            body = bodies.setdefault(query, _body(_answer(query)))
            sent.append(len(body))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
        thread.join()


def _answer(query: str) -> Vector:
    runs = [f"team.run-{run}.0123abcd" for run in range(RUNS)]
    if "count|med|mad" in query:
        return [
            (_stratum(run, pp, tp) | {"__name__": signal.recorded(part)}, value)
            for run in runs
            for pp in range(PP)
            for tp in range(TP)
            for signal in SIGNALS
            for part, value in (("count", DP), ("med", 0.84213), ("mad", 0.01234))
        ]
    if query.startswith("sum by (run)"):
        return [({"run": run}, RANKS / RUNS) for run in runs]
    if "rank:count" in query:
        return [({"run": run, "world_size": str(RANKS // RUNS)}, RANKS / RUNS) for run in runs]
    # The worst case: of every run and signal as many suspects as the reader asks for.
    return [(_rank(run, rank), 7.654321 + rank) for run in runs for rank in range(MOST - 1)]


def _stratum(run: str, pp: int, tp: int) -> dict[str, str]:
    return {"run": run, "pp": str(pp), "tp": str(tp)}


def _rank(run: str, rank: int) -> dict[str, str]:
    place = {
        "rank": str(rank), "world_size": str(RANKS // RUNS), "dp": str(rank), "gpu": str(rank % 8),
        "node": f"gpu-node-{rank // 8:05d}", "uuid": f"GPU-8f14e45f-ceea-467f-a834-{rank:012d}",
    }  # fmt: skip
    return _stratum(run, 3, 5) | place


def _body(vector: Vector) -> bytes:
    result = [
        {"metric": labels, "value": [1_760_000_000.0, str(value)]} for labels, value in vector
    ]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()
