"""A node under test: the collector's program, on our libnvidia-ml with eight GPUs and eight ranks.

Every second the driver's values and the ranks' counters change, as they do on a busy node.
`python -m tests.benchmarks.collector_node TIMES ...` is the collector's program itself, whose
server's time of each request is written to TIMES at its end.
"""

import contextlib
import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Self

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS, OPS, PHASES
from lockstep.workloads.ring import Identity, RingWriter

ROOT = Path(__file__).parent.parent.parent
GPUS = 8
THROTTLED_FIELD, THROTTLED_REASON = 270, "hw_thermal"
"""NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN: nanoseconds that never fall."""
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4",
    "Accept-Encoding": "gzip",
}
"""What Prometheus asks for."""
START_SECONDS = 30.0


def mock_module() -> ModuleType:
    """The tests' module that builds and drives our libnvidia-ml; it needs gcc."""
    path = ROOT / "tests/collector/nvml_mock/mock.py"
    spec = importlib.util.spec_from_file_location("nvml_mock", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Node:
    """The collector as a process, what it watches, and what it costs.

    Args:
        gpus: So many are plugged in.
        times: Where the server's time of each request goes, or None to run it untimed.
        arguments: More of the collector's flags.
        program: The module that is run, and what stands before the flags.

    Attributes:
        folder: Where the rings lie.
    """

    def __init__(
        self,
        gpus: int = GPUS,
        times: Path | None = None,
        *arguments: str,
        program: Sequence[str] = ("lockstep.collector",),
    ) -> None:
        self._exit = contextlib.ExitStack()
        self.folder = folder = Path(self._exit.enter_context(tempfile.TemporaryDirectory()))
        module = mock_module()
        self.mock = module.NvmlMock(module.build(ROOT / ".cache/nvml_mock"), folder / "state")
        self.mock.plug(gpus)
        for index in range(gpus):
            self.mock.gpu(index).ecc_location_present = 0xFF
        self._ranks = [_rank(folder, index, gpus) for index in range(gpus)]
        self._stop = threading.Event()
        self._training = threading.Thread(target=self._train, daemon=True)
        if times is not None:
            program = ("tests.benchmarks.collector_node", str(times))
        announced, words = folder / "address", folder / "stderr"
        with words.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program, "--listen", "127.0.0.1:0",
                 "--announce", str(announced), "--lockstep-dir", str(folder), *arguments],
                env=os.environ | self.mock.environment, cwd=ROOT, stderr=errors,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not announced.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the collector did not start: {words.read_text()[-500:]}")
            time.sleep(0.02)
        host, _, port = announced.read_text().strip().rpartition(":")
        self.address = (host, int(port))

    def __enter__(self) -> Self:
        self._training.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.mock.close()
        self.process.terminate()
        self.process.wait(20)
        self._stop.set()
        self._training.join()
        for rank in self._ranks:
            rank.close()
        self._exit.close()

    def connect(self) -> http.client.HTTPConnection:
        """A connection that is kept alive."""
        return http.client.HTTPConnection(*self.address, timeout=10)

    def series(self) -> dict[str, float]:
        """The page: values by series, a name with its labels."""
        connection = self.connect()
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        finally:
            connection.close()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def processes(self) -> list[int]:
        """Ids of the collector and of all its children."""
        found = [self.process.pid]
        for pid in found:  # grows while it is gone through
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def cpu(self) -> float:
        """CPU seconds of all processes so far."""
        return sum(cpu_of(pid) for pid in self.processes())

    def resident(self) -> float:
        """Resident megabytes of all processes, shared pages counted in each."""
        return sum(resident_of(pid) for pid in self.processes())

    def proportional(self) -> float:
        """Resident megabytes of all processes, shared pages divided by those who share them."""
        total = 0
        for pid in self.processes():
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1e3

    def throttle(self, nanoseconds: int) -> None:
        """The driver has held every GPU back for so much longer."""
        for index in range(self.mock.state.count):
            self.mock.gpu(index).field[THROTTLED_FIELD] += nanoseconds

    def _train(self) -> None:
        for number in range(1, sys.maxsize):
            for index in range(self.mock.state.count):
                gpu = self.mock.gpu(index)
                gpu.util_gpu, gpu.temperature = 90 + number % 10, 60 + (number + index) % 8
                gpu.clock[0] = 1980 - 15 * (number % 5)
                gpu.field[83] += 650_000 + number % 1000
                gpu.field[186] = 640_000 + 997 * (number + index) % 50_000
                gpu.field[197] += 10**9
                gpu.field[198] += 10**9
            for rank in self._ranks:
                _step(rank)
            if self._stop.wait(1.0):
                return


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_of(pid: int) -> float:
    """Resident megabytes of a process."""
    return int(_stat(pid)[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def get(connection: http.client.HTTPConnection) -> bytes:
    """One scrape as Prometheus does it; the body as it was sent."""
    connection.request("GET", "/metrics", headers=HEADERS)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200
    return body


def quantile(times: list[float], share: float) -> float:
    """The smallest time that so many do not exceed."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _rank(folder: Path, index: int, world: int) -> RingWriter:
    who = Identity(
        "benchmark", "node-0", f"GPU-{index}", index, world, index, 0, index, 0, 0, index,
        start_wall_ns=0, wall_minus_monotonic_ns=0,
    )  # fmt: skip
    writer = RingWriter(folder / ring.file_name(index), who)
    for _ in range(3):
        _step(writer)
    return writer


def _step(rank: RingWriter) -> None:
    rank.heartbeat()
    for group in ("world", "dp", "pp", "tp"):
        op, place = OPS.index("dp-all-reduce"), GROUPS.index(group)
        rank.end(op, place, rank.begin(op, place), 4096, ring.NO_TAG)
    rank.end_step(
        start_ns=time.monotonic_ns(), wall_ns=10**9, cpu_ns=10**8, own_ns=10**8, wait_ns=9 * 10**8,
        phase_ns=[10**7] * len(PHASES), tags=0, samples=4, tokens=256, flops=1e12, loss=2.5,
    )  # fmt: skip


def _timed(times: Path, arguments: list[str]) -> int:
    """The collector's program; notes the time from a request's first line to its last byte."""
    from lockstep.collector.__main__ import main
    from lockstep.collector.exporter.bounded_server import BoundedHandler

    found: list[float] = []
    began = threading.local()
    parse, handle = BoundedHandler.parse_request, BoundedHandler.handle_one_request

    def parsed(handler: BoundedHandler) -> bool:
        began.at = time.perf_counter()
        return parse(handler)

    def handled(handler: BoundedHandler) -> None:
        began.at = None
        handle(handler)
        if began.at is not None:  # a connection that ends here brought no request
            found.append(time.perf_counter() - began.at)

    setattr(BoundedHandler, parse.__name__, parsed)
    setattr(BoundedHandler, handle.__name__, handled)
    code = main(arguments)
    times.write_text(json.dumps(found))
    return code


if __name__ == "__main__":
    sys.exit(_timed(Path(sys.argv[1]), sys.argv[2:]))
