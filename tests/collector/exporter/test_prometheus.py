"""Debian's Prometheus scrapes the exporter: what the machine tells can be asked for by name."""

import contextlib
import http.server
import itertools
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Address
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import ring
from lockstep.collector.contract.metrics import METRICS, SAMPLES
from lockstep.collector.exporter.exporter import Exporter
from lockstep.collector.exporter.page import Form
from lockstep.collector.registry import NAMES, feeds
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.samples.monitor import collect_build

TESTS = Path(__file__).parents[2]
MACHINES = sorted((TESTS / "fixtures/machines").glob("*__*__*"))
GOLDEN = sorted(TESTS.glob("golden/machines/*.txt"))
HARDWARE = {"nvml", "dcgm", "dcgm_exporter"}
"""Sources that would see the GPUs of the machine on which the test runs."""

SELDOM = (29, 30, 31, 220, 222)
"""Fields of NVML that not every GPU answers, and the mock's only when told: retired pages before
Ampere, bit error rates since Blackwell."""

RAS = ("lockstep_nccl_ras_", "lockstep_nccl_rank_", "lockstep_nccl_comm", "lockstep_nccl_peer_")
INSPECTOR = (m.NCCL_RANK_COLLECTIVES.name, m.NCCL_RANK_SECONDS.name, m.NCCL_RANK_WAIT.name)
ASKED_FOR_ELSEWHERE = {
    m.SERIES_DROPPED.name: "no page here is above its cap; test_exporter.py has one",
    m.GPU_ALLOCATION_AGE.name: "no machine here has a kubelet; test_pod_resources.py has one",
    m.KUBELET_DEVICES.name: "likewise",
    m.GPU_LAST_XID.name: "DCGM tells it; test_dcgm_exporter.py has pages with it",
    m.IB_SATURATED.name: "no register here stands at its maximum; test_infiniband.py has some",
    m.TRAIN_VALUE.name: "no rank here logs its own; test_own_values.py of the dashboard has",
    m.THREAD_FAILURES.name: "no thread here failed; test_exporter.py has the page of a program",
    m.RANK_LAST_STATE.name: "all ranks here live; test_collectors.py has one that is gone",
    **{
        name: "no NCCL here answers over RAS; test_nccl_ras_answers.py has its series"
        for name in METRICS
        if name.startswith(RAS) and name not in INSPECTOR
    },
    m.NCCL_RANK_WAIT.name: "no communicator is all on one node; test_nccl_inspector.py has one",
}

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timed]


class Served(NamedTuple):
    """A machine that Prometheus scrapes."""

    address: Address
    page: str


@pytest.fixture
def serve(machine):
    """Serves the sources that a configuration names, and gives the page once it is whole."""
    running = []

    def start(whole: str, **settings) -> Served:
        clock = SystemClock()
        config = machine.config(
            **{"listen": Address("127.0.0.1", 0), "slow_period": 600.0, "ttl": 1200.0,
               "series_cap": 9000} | settings
        )  # fmt: skip
        own = collect_build("0.1.0", "3.11")
        sampler = Sampler(feeds(config, clock), clock, config.ttl, own)
        exporter = Exporter(config, sampler, clock)
        server = exporter.serve()
        running.append((server, sampler))
        sampler.start()
        server.start()
        sampler.wait_ready()
        exporter.page()
        deadline = time.monotonic() + 60
        while f"\n{whole}" not in (page := exporter.page()):
            assert time.monotonic() < deadline, f"no {whole} on the page"
            time.sleep(0.1)
        return Served(server.address, page)

    yield start
    for server, sampler in running:
        server.stop()
        sampler.stop()


@pytest.fixture
def busy() -> Iterator[Served]:
    """The page of test_exporter.py's busy machine as it is kept: with network, log and NCCL."""
    page = (TESTS / "golden/page.txt").read_text()

    class Kept(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", Form.TEXT.value)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kept) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Served(Address("127.0.0.1", server.server_port), page)
        server.shutdown()
        thread.join()


@pytest.fixture
def machines(machine, image, gpu_state, nvml, serve, busy) -> dict[str, Served]:
    """By simulated GPUs, by each capture, behind our libnvidia-ml, and the busy one."""
    now = time.monotonic_ns()
    machine.host()
    machine.process(100, cgroup="/train")
    machine.throttled("/train", 2_500_000_000)
    machine.file(machine.proc / "100/schedstat", "5000000000 125000000 91\n")
    machine.file(machine.proc / "self/schedstat", "1 2 3\n")
    exchange = ring.Exchange(8, 8, 0, (ring.ExchangeGroup(7, 4096, 4, 0),), ())
    now_open = image(heartbeat_ns=now, progress_ns=now, open=(15, 1, now), exchange=exchange)
    machine.ring(now_open.training(6))
    machine.gpu(gpu_state(time_ns=now))
    nvml.partition(1, 2)
    for field in SELDOM:
        nvml.field(0, field, 1)
    cpu = machine.sys / "devices/system/cpu/cpu0"
    for level, what in itertools.product(("core", "package"), ("count", "total_time_ms")):
        machine.file(cpu / f"thermal_throttle/{level}_throttle_{what}", "12\n")
    for name in ("core_id", "physical_package_id"):
        machine.file(cpu / "topology" / name, "0\n")
    names = [name for name in NAMES if name not in HARDWARE]
    without_gpus = tuple(name for name in names if name != "simulated")
    still = {"fast_period": 600.0}
    served = {"busy": busy}
    served["simulated"] = serve(m.GPU_POWER.name, sources=tuple(names), **still)
    for path in MACHINES:
        served[path.name] = serve(m.GPU_INFO.name, sources=without_gpus, replay=path, **still)
    # Activity is the difference of two readings.
    served["nvml"] = serve(m.GPU_TENSOR_ACTIVE.name, sources=("nvml",), fast_period=0.5)
    return served


@pytest.fixture
def prometheus(machines, tmp_path):
    """Asks a Prometheus that has scraped all machines."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    targets = [
        {"targets": [str(one.address)], "labels": {"machine": name}}
        for name, one in machines.items()
    ]
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps({  # which is YAML too
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "lockstep", "static_configs": targets}],
    }))  # fmt: skip
    process = subprocess.Popen(
        [
            program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/tsdb",
            f"--web.listen-address={own}", "--log.level=error",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ask(query: str) -> list[dict]:
        words = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://{own}/api/v1/query?{words}", timeout=5) as response:
            return json.load(response)["data"]["result"]

    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                if len(ask("lockstep_build_info")) == len(machines):
                    break
            time.sleep(0.2)
        else:
            pytest.fail("Prometheus has not scraped the machines in 60 s")
        yield ask
    finally:
        process.terminate()
        process.wait(240)


def test_every_series_of_every_machine_can_be_asked_for_by_name_and_labels(machines, prometheus):
    lacking, names = [], set()
    stored: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for name, (address, page) in machines.items():
        more = {"job": "lockstep", "machine": name, "instance": str(address)}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name not in stored:
                    stored[sample.name] = {
                        tuple(sorted(one["metric"].items())) for one in prometheus(sample.name)
                    }
                wanted = {"__name__": sample.name} | sample.labels | more
                # An empty label and no label are the same to Prometheus.
                present = {label: text for label, text in wanted.items() if text}
                if tuple(sorted(present.items())) not in stored[sample.name]:
                    lacking.append(wanted)
                names.add(SAMPLES[sample.name].family)

    assert [] == lacking
    assert [] == prometheus('up{job="lockstep"} == 0')
    assert [] == prometheus("lockstep_gpu_power_watts unless on (gpu, uuid) lockstep_gpu_info")
    # Whatever can be said, one of these machines has said.
    assert ASKED_FOR_ELSEWHERE.keys() == METRICS.keys() - names


@pytest.mark.parametrize("page", GOLDEN, ids=lambda path: path.stem)
def test_promtool_finds_nothing_wrong_with_a_captured_machine(page):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")

    done = subprocess.run(
        [promtool, "check", "metrics"], input=page.read_text(), capture_output=True, text=True
    )

    assert [] == (done.stdout + done.stderr).splitlines()
