"""Debian's Prometheus scrapes the exporter: what the machine tells can be asked for by name."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.clock import SystemClock
from collector.collectors import COLLECTORS, feeds
from collector.collectors.monitor import collect_build
from collector.config import Address
from collector.exporter import Exporter
from collector.sampler import Sampler

TESTS = Path(__file__).parent.parent
MACHINES = sorted((TESTS / "fixtures/machines").glob("*__*__*"))
GOLDEN = sorted(TESTS.glob("golden/machines/*.txt"))
HARDWARE = {"nvml", "dcgm", "dcgm_exporter"}
"""Sources that would see the GPUs of the machine on which the test runs."""

pytestmark = [pytest.mark.prometheus, pytest.mark.slow]


@pytest.fixture(params=[None, *MACHINES], ids=lambda path: path.name if path else "simulated")
def scraped(request, machine, image, gpu_state):
    """The fixture machine with a living rank and a captured machine's GPUs, served over HTTP."""
    clock = SystemClock()
    now = time.monotonic_ns()
    machine.host()
    machine.process(100, cgroup="/train")
    machine.throttled("/train", 2_500_000_000)
    machine.file(machine.proc / "100/schedstat", "5000000000 125000000 91\n")
    machine.file(machine.proc / "self/schedstat", "1 2 3\n")
    machine.ring(image(heartbeat_ns=now, progress_ns=now, open=(15, 1, now)).training(6))
    if request.param is None:
        machine.gpu(gpu_state(time_ns=now))
    config = machine.config(
        listen=Address("127.0.0.1", 0), fast_period=600.0, slow_period=600.0, ttl=1200.0,
        series_cap=5000, replay=request.param,
        sources=tuple(name for name, _ in COLLECTORS if name not in HARDWARE),
    )  # fmt: skip
    own = collect_build("0.1.0", "3.11")
    sampler = Sampler(feeds(config, clock), clock, config.ttl, own)
    exporter = Exporter(config, sampler, clock)
    server = exporter.serve()
    sampler.start()
    server.start()
    sampler.wait_ready()
    exporter.page()
    yield exporter.page(), server.address
    server.stop()
    sampler.stop()


@pytest.fixture
def prometheus(scraped, tmp_path):
    """Asks a Prometheus that has scraped the machine."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: lockstep\n"
        f"    static_configs: [{{targets: ['{scraped[1]}'], labels: {{rack: r1}}}}]\n"
    )
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
        for _ in range(150):
            with contextlib.suppress(OSError):
                if ask("lockstep_build_info"):
                    break
            time.sleep(0.2)
        else:
            pytest.fail("Prometheus has not scraped the machine in 30 s")
        yield ask
    finally:
        process.terminate()
        process.wait(20)


def test_every_series_of_the_page_can_be_asked_for_by_name_and_labels(scraped, prometheus):
    page, address = scraped
    lacking = []
    for family in text_string_to_metric_families(page):
        found = {tuple(sorted(one["metric"].items())) for one in prometheus(family.samples[0].name)}
        for sample in family.samples:
            wanted = sample.labels | {
                "__name__": sample.name, "job": "lockstep", "rack": "r1",
                "instance": str(address),
            }  # fmt: skip
            # An empty label and no label are the same to Prometheus.
            present = {name: text for name, text in wanted.items() if text}
            if tuple(sorted(present.items())) not in found:
                lacking.append(wanted)

    assert [] == lacking
    assert [] == prometheus('up{job="lockstep"} == 0')

    assert [] == prometheus("lockstep_gpu_power_watts unless on (gpu, uuid) lockstep_gpu_info")


@pytest.mark.parametrize("page", GOLDEN, ids=lambda path: path.stem)
def test_promtool_finds_nothing_wrong_with_a_captured_machine(page):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")

    done = subprocess.run(
        [promtool, "check", "metrics"], input=page.read_text(), capture_output=True, text=True
    )

    assert [] == (done.stdout + done.stderr).splitlines()
