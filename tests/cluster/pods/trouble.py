"""What goes wrong on purpose: a registry that refuses, a file for a folder, full volumes."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cluster.pods.real_nodes import RealNodes

REFUSING = "localhost:5000"
MEGABYTES = 8
REFUSES = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Registry(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="registry"')
        self.end_headers()
    do_HEAD = do_GET
HTTPServer(("127.0.0.1", 5000), Registry).serve_forever()
"""


@contextlib.contextmanager
def refusing_registry(nodes: RealNodes, missing: str) -> Iterator[None]:
    """On every node one that lets nobody in; the nodes have its images but for one part's."""
    servers, parts = [], [one for one in ("collector", "watch", "nodes", "dashboard")
                          if one != missing]  # fmt: skip
    names = [f"{REFUSING}/lockstep-{part}:0.2.0" for part in parts]
    try:
        for node in nodes.names:
            first = (nodes.kubeconfig.parent / node / "first").read_text().strip()
            servers.append(subprocess.Popen(
                ["nsenter", "-t", first, "-n", sys.executable, "-c", REFUSES],
                stderr=subprocess.DEVNULL,
            ))  # fmt: skip
            for name in names:
                nodes.containerd(node, "images", "tag", "--force",
                                 name.replace(":5000", ""), name)  # fmt: skip
        yield
    finally:
        for server in servers:
            server.kill()
            server.wait()
        for node in nodes.names:
            nodes.containerd(node, "images", "rm", *names)


@contextlib.contextmanager
def file_in_place_of(nodes: RealNodes, node: str, folder: str) -> Iterator[None]:
    """What mounts the folder from then on finds a file."""
    nodes.inside(
        node, "sh", "-c", f"[ ! -e {folder} ] || mv {folder} {folder}.away; touch {folder}"
    )
    try:
        yield
    finally:
        nodes.inside(node, "rm", folder)
        nodes.inside(node, "sh", "-c", f"[ ! -e {folder}.away ] || mv {folder}.away {folder}")


@contextlib.contextmanager
def small_volumes(nodes: RealNodes, *places: tuple[str, Path]) -> Iterator[Callable[[], None]]:
    """Memory of so many megabytes where nodes mount a folder; what is yielded fills it.

    What fills it cannot reach the disk: nothing is written where there is no mount of its own.
    """
    made: list[tuple[str, str]] = []

    def fill() -> None:
        for node, folder in made:
            nodes.inside(node, "mountpoint", "-q", folder)
            amount = f"head -c {MEGABYTES}M /dev/zero >{folder}/ballast"
            nodes.inside(node, "sh", "-c", f"{amount} 2>/dev/null || true")

    try:
        for node, folder in places:
            options = f"size={MEGABYTES}m,mode=1777"
            nodes.inside(node, "mount", "-t", "tmpfs", "-o", options, "lockstep-full", str(folder))
            made.append((node, str(folder)))
        yield fill
    finally:
        for node, folder in made:
            nodes.inside(node, "umount", "-l", folder)
