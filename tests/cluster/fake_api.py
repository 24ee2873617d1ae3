"""An API server in memory, over HTTP: as much of Kubernetes as what acts on nodes can meet.

What it does is what tests/cluster/test_api_contract.py says; the same tests run on a real server.
"""

import contextlib
import copy
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ADMIN = "admin"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>[a-z]+))?"
)
WATCH_SECONDS = 10.0
Json = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace, name."""


class StatusError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeApi:
    """The server; `url` once it listens.

    Attributes:
        calls: (method, path) of every request, the oldest first.
        before: Called with method and path before a request: it may raise StatusError, change
            objects, or end the connection by raising OSError.
        rights: Token -> (kind, with its part) -> verbs; the administrator may everything.
        guarded: Pods that a disruption budget guards.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.rights: dict[str, Mapping[str, tuple[str, ...]]] = {}
        self.guarded: set[str] = set()
        self._version = 0
        self._news: list[tuple[int, str, Json]] = []
        self._changed = threading.Condition(threading.RLock())
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator["FakeApi"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def kubeconfig(self, folder: Path, token: str = ADMIN) -> Path:
        path = folder / f"{token}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}],
        }))  # fmt: skip
        return path

    def answer(self, method: str, target: str, kind: str, body: Any, token: str) -> Json:
        """What a request is answered; raises StatusError."""
        split = urlsplit(target)
        path, query = split.path, {name: each[-1] for name, each in parse_qs(split.query).items()}
        self.calls.append((method, path))
        self.before(method, path)
        found = PATH.fullmatch(path)
        if found is None:
            raise StatusError(404, "the server could not find the requested resource")
        key = found["kind"], found["namespace"] or "", unquote(found["name"] or "")
        verb = {"GET": "get" if key[2] else "list", "POST": "create", "PATCH": "patch",
                "DELETE": "delete", "PUT": "update"}[method]  # fmt: skip
        what = "/".join(filter(None, (key[0], found["part"])))
        if token != ADMIN and verb not in self.rights.get(token, {}).get(what, ()):
            raise StatusError(
                403, f'{what} is forbidden: User "{token}" cannot {verb} resource "{what}"'
            )
        with self._changed:
            if verb == "list":
                return self._list(key, query)
            if found["part"] == "eviction":
                return self._evict(key)
            if verb == "create":
                return self._create(key, body)
            if key not in self.objects:
                raise StatusError(404, f'{key[0]} "{key[2]}" not found')
            if verb == "patch":
                return self._patch(key, found["part"] or "", kind, body)
            if verb == "delete":
                _check_version(self.objects[key], (body or {}).get("preconditions") or {})
                self._tell("DELETED", self.objects[key])
                return self.objects.pop(key)
            return self.objects[key]

    def touch(self, *key: str) -> None:
        """Somebody else writes an object."""
        kind, namespace, name = key
        with self._changed:
            self._store((kind, namespace, name), self.objects[kind, namespace, name], "MODIFIED")

    def watch(self, target: str) -> Iterator[Json]:
        """What changes after a resourceVersion."""
        found, query = PATH.fullmatch(urlsplit(target).path), parse_qs(urlsplit(target).query)
        assert found is not None
        after = int(query.get("resourceVersion", ["0"])[0])
        while True:
            with self._changed:
                news = [each for each in self._news if each[0] > after]
                if not news and not self._changed.wait(WATCH_SECONDS):
                    return
            for version, what, item in news:
                after = version
                if item["kind"].lower() + "s" == found["kind"]:
                    yield {"type": what, "object": item}

    def _list(self, key: Key, query: Mapping[str, str]) -> Json:
        wanted = [part.partition("=") for part in query.get("labelSelector", "").split(",") if part]
        items = [
            item for (kind, namespace, _), item in sorted(self.objects.items())
            if kind == key[0] and key[1] in ("", namespace) and _chosen(item, wanted)
        ]  # fmt: skip
        first, limit = int(query.get("continue", 0)), int(query.get("limit", 0))
        end = first + limit if limit else len(items)
        more = str(end) if end < len(items) else ""
        metadata = {"resourceVersion": str(self._version), **({"continue": more} if more else {})}
        return {"kind": "List", "metadata": metadata, "items": items[first:end]}

    def _create(self, key: Key, body: Json) -> Json:
        item = copy.deepcopy(body)
        name = item["metadata"]["name"]
        if len(name) > 253 or not NAME.fullmatch(name):
            raise StatusError(422, f"metadata.name: Invalid value: {name!r}")
        if key[0] == "events" and key[1] != item["involvedObject"].get("namespace", "default"):
            raise StatusError(422, "involvedObject.namespace: does not match event.namespace")
        key = key[0], key[1], name
        if key in self.objects:
            raise StatusError(409, f'{key[0]} "{name}" already exists')
        item["metadata"] |= {"uid": str(uuid.uuid4())}
        item.setdefault("kind", key[0].removesuffix("s").capitalize())
        return self._store(key, item, "ADDED")

    def _patch(self, key: Key, part: str, kind: str, body: Any) -> Json:
        before = self.objects[key]
        if kind == "application/json-patch+json":
            patched = _json_patch(before, body)
        else:
            _check_version(before, body.get("metadata", {}))
            patched = _merged(before, body, by_type=kind.startswith("application/strategic"))
        # Each of both keeps what belongs to the other; metadata belongs to both.
        kept = "spec" if part == "status" else "status" if key[0] == "nodes" else ""
        if kept in before:
            patched[kept] = before[kept]
        return self._store(key, patched, "MODIFIED")

    def _evict(self, key: Key) -> Json:
        if key not in self.objects:
            raise StatusError(404, f'pods "{key[2]}" not found')
        if key[2] in self.guarded:
            raise StatusError(
                429, "Cannot evict pod as it would violate the pod's disruption budget."
            )
        self._tell("DELETED", self.objects.pop(key))
        return {"kind": "Status", "status": "Success"}

    def _store(self, key: Key, item: Json, what: str) -> Json:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self.objects[key] = item
        self._tell(what, item)
        return item

    def _tell(self, what: str, item: Json) -> None:
        if what == "DELETED":
            self._version += 1
        self._news.append((self._version, what, copy.deepcopy(item)))
        self._changed.notify_all()


def _check_version(item: Json, wanted: Json) -> None:
    for field in ("uid", "resourceVersion"):
        if field in wanted and wanted[field] != item["metadata"][field]:
            raise StatusError(409, f"Precondition failed: {field} in precondition is another")


def _chosen(item: Json, wanted: list[tuple[str, str, str]]) -> bool:
    labels = item["metadata"].get("labels") or {}
    return all(name in labels and (not sign or labels[name] == value)
               for name, sign, value in wanted)  # fmt: skip


def _merged(before: Any, patch: Any, *, by_type: bool, field: str = "") -> Any:
    if isinstance(patch, dict):
        found = dict(before) if isinstance(before, dict) else {}
        for name, value in patch.items():
            if value is None:
                found.pop(name, None)
            else:
                found[name] = _merged(found.get(name), value, by_type=by_type, field=name)
        return found
    if by_type and field == "conditions":
        found = {one["type"]: one for one in before or ()}
        for one in patch:
            if one.get("$patch") == "delete":
                found.pop(one["type"], None)
            else:
                found[one["type"]] = found.get(one["type"], {}) | one
        return list(found.values())
    return copy.deepcopy(patch)


def _json_patch(before: Json, steps: list[Json]) -> Json:
    found = copy.deepcopy(before)
    for step in steps:
        *parents, last = [part.replace("~1", "/").replace("~0", "~")
                          for part in step["path"].split("/")[1:]]  # fmt: skip
        place = found
        for part in parents:
            place = place[part]
        if step["op"] == "test" and place.get(last) != step["value"]:
            raise StatusError(422, "the server rejected our request due to an error in our request")
        if step["op"] in ("add", "replace"):
            place[last] = step["value"]
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    api: FakeApi

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients are killed in tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if "watch=" in self.path:
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            for each in self.server.api.watch(self.path):
                self.wfile.write(json.dumps(each).encode() + b"\n")
                self.wfile.flush()
            return
        kind = self.headers.get("Content-Type") or ""
        code = 200
        try:
            tree = self.server.api.answer(
                self.command, self.path, kind, json.loads(body) if body else None, token
            )
        except StatusError as error:
            code, tree = error.code, {"kind": "Status", "message": str(error), "code": error.code}
        content = json.dumps(tree).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_one  # noqa: N815 - the base class's

    def log_message(self, *words: Any) -> None: ...
