"""A real Prometheus for a benchmark, on a free port of the loopback."""

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def prometheus(folder: Path, config: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """(URL, process) of one with what was stored in the folder before."""
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML too
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/db",
        f"--web.listen-address={own}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://{own}/-/ready", timeout=5).close()
                    break
                time.sleep(0.1)
            yield f"http://{own}", process.pid
        finally:
            process.terminate()
