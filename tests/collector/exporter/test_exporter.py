"""The whole collector on a machine that does not exist, over real HTTP."""

import gzip
import http.client
import json
import os
import shutil
import socket
import subprocess
from contextlib import suppress

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.config import Address
from lockstep.collector.contract import flight_recorder
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS, SAMPLES
from lockstep.collector.exporter import bounded_server as bounded
from lockstep.collector.exporter.exporter import Exporter
from lockstep.collector.exporter.page import Form
from lockstep.collector.exporter.server import ListenError
from lockstep.collector.registry import NAMES, feeds
from lockstep.collector.sampler.reader import FeedReader
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.samples.monitor import collect_build
from lockstep.collector.sources.host import kernel_clock
from lockstep.collector.sources.network.ethtool import source as ethtool

INSPECTED = (
    '{"header":{"id":"0x7f8c496ae9f661","comm_name":"dp","rank":0,"n_ranks":8,"nnodes":1},'
    '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"",'
    '"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1748030377748202,'
    '"hostname":"node-0","pid":100},"coll_perf":{"coll":"AllReduce","coll_sn":1407,'
    '"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,'
    '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":277.210914,'
    '"coll_busbw_gbs":485.119099}}\n'
)
"""What NCCL Inspector wrote about rank 0 (its README)."""
RAS = ("lockstep_nccl_ras_", "lockstep_nccl_rank_", "lockstep_nccl_comm", "lockstep_nccl_peer_")
INSPECTOR = (m.NCCL_RANK_COLLECTIVES.name, m.NCCL_RANK_SECONDS.name)
NOT_ON_THE_GOLDEN_PAGE = {
    m.SERIES_DROPPED.name: "the page is under the cap",
    m.THREAD_FAILURES.name: "of the threads of a whole program; test_threads.py has them",
    m.RANK_LAST_STATE.name: "all ranks of this page live; test_collectors.py has one that is gone",
    m.GPU_ALLOCATION_AGE.name: "this machine has no kubelet; test_pod_resources.py has one",
    m.KUBELET_DEVICES.name: "likewise",
    m.IB_SATURATED.name: "no register stands at its maximum; test_infiniband.py has some",
    m.SOURCE_RESTARTS.name: "of NVML's process, left out here; tests/attack has it",
    **{
        row.name: "RAS listens on a port of its own; test_nccl_ras_answers.py has its series"
        for row in vars(m.nccl).values()
        if isinstance(row, m.Metric) and row.name.startswith(RAS) and row.name not in INSPECTOR
    },
    m.RANK_EXCHANGE_INFO.name: "these ranks run no torch; one in test_collectors.py does",
    m.TRAIN_VALUE.name: "these ranks log nothing of their own; one in test_collectors.py does",
    m.NCCL_RANK_WAIT.name: "one rank of eight is here; test_nccl_inspector_rank_waits.py has all",
}


@pytest.fixture
def exporter(machine, clock, monkeypatch, network_node):
    started = []
    timex = kernel_clock.Timex(offset=-2500, maxerror=1250, status=kernel_clock.NANOSECONDS)
    monkeypatch.setattr(kernel_clock, "adjtimex", lambda: timex)
    nics = network_node.FakeNics({"eth0": network_node.mlx5_statistics()})
    monkeypatch.setattr(ethtool, "Kernel", nics.open)

    def start(**settings) -> Exporter:
        # What would see the GPUs of the machine on which the test runs is left out.
        names = [name for name in NAMES if name not in ("nvml", "dcgm", "dcgm_exporter")]
        settings = {
            "fast_period": 60.0, "slow_period": 60.0, "ttl": 120.0, "sources": tuple(names)
        } | settings  # fmt: skip
        config = machine.config(listen=Address("127.0.0.1", 0), **settings)
        sampler = Sampler(feeds(config, clock), clock, config.ttl, collect_build("0.1.0", "3.11"))
        started.append(sampler)
        inspected = machine.rings / "node-0-pid100.log"
        if inspected.exists():  # as if a collector had been here just before it was written
            status = inspected.stat()
            place = [status.st_dev, status.st_ino, 0, "", False]
            sampler.recall({"nccl_inspector": {str(inspected): place}})
        sampler.start()
        sampler.wait_ready()
        return Exporter(config, sampler, clock)

    yield start
    for sampler in started:
        sampler.stop()


def recorded(machine, rank: int, enqueued: int) -> None:
    """The flight recorder of a rank: six collectives are over, those after have taken 4 s."""
    wrote = machine.clock.wall() - 2
    entries = [
        {
            "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": sequence,
            "profiling_name": "nccl:all_reduce", "state": "started", "retired": False,
            "time_created_ns": round((wrote - 4) * 1e9),
        }
        for sequence in range(7, enqueued + 1)
    ]  # fmt: skip
    status = {"last_enqueued_collective": enqueued, "last_started_collective": enqueued,
              "last_completed_collective": 6}  # fmt: skip
    path = machine.rings / flight_recorder.dump_name("gpt-1", rank)
    tree = {"version": "2.10", "entries": entries, "pg_status": {"0": status}}
    os.utime(machine.file(path, json.dumps(tree)), (wrote, wrote))


@pytest.fixture
def busy_machine(machine, image, gpu_state):
    """Rank 0 inside a collective, rank 1 gone, one hostile ring, one simulated GPU."""
    machine.host()
    machine.process(100, cgroup="/train")
    machine.throttled("/train", 2_500_000_000)
    machine.file(machine.proc / "100/schedstat", "5000000000 125000000 91\n")
    machine.file(machine.proc / "self/schedstat", "1 2 3\n")
    machine.ring(image(rank=0, open=(15, 1, round(999.5e9))).training(6))
    machine.ring(image(rank=1, pid=101, uuid="GPU-1", gpu=1))
    machine.file(machine.rings / "rank-2.ring", "not a ring")
    machine.gpu(gpu_state())
    machine.file(machine.rings / "node-0-pid100.log", INSPECTED)
    for rank, enqueued in ((0, 7), (1, 6)):
        recorded(machine, rank, enqueued)
    # Stamped with a time to come: what is read happened by now, whatever clock the kernel has.
    machine.file(
        machine.proc.parent / "kmsg",
        "3,7,900000000000000,-;NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>,"
        " GPU has fallen off the bus.\n"
        "3,8,900000000000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30"
        " LTSSM Fault Up\n"
        "3,9,900000000000000,-;NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x22:0x56:894)\n"
        "3,10,900000000000000,-;mlx5_core 0000:05:00.0: something: new\n",
    )
    return machine


@pytest.fixture
def page(exporter, busy_machine) -> str:
    one = exporter(node="node-0")
    one.page()  # the first page has no duration of the page before
    return one.page()


def test_the_page_of_a_known_machine_is_known(page, golden):
    golden("page.txt", page)


def test_the_page_parses_and_keeps_to_the_contract(page):
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            row = SAMPLES[sample.name]
            assert set(sample.labels) == set(row.labels)
            assert family.type == METRICS[row.family].kind
            assert family.documentation == row.help


def test_every_metric_of_the_contract_is_on_the_page_or_excused(page):
    names = {
        SAMPLES[sample.name].family
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }

    # Of GPUs, this page has simulated ones; test_replay.py has the pages of captured machines.
    on_gpu_pages = {row.name for row in vars(m.gpu).values() if isinstance(row, m.Metric)}
    assert NOT_ON_THE_GOLDEN_PAGE.keys() == METRICS.keys() - names - on_gpu_pages


def test_the_number_of_series_is_right(page):
    series = [line for line in page.splitlines() if not line.startswith("#")]

    assert f"lockstep_scrape_series {len(series)}" in series
    assert len(set(series)) == len(series)


@pytest.mark.prometheus
def test_promtool_finds_nothing_wrong_with_the_page(page):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")

    done = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True
    )

    assert (done.stdout + done.stderr).splitlines() == []


@pytest.mark.parametrize("cap", [1, 20, 60, 100])
def test_the_cap_holds_and_says_what_it_dropped(exporter, busy_machine, cap):
    text = exporter(series_cap=cap).page()

    series = [line for line in text.splitlines() if not line.startswith("#")]
    dropped = [line for line in series if line.startswith(m.SERIES_DROPPED.name)]
    assert len(series) - len(dropped) <= cap
    assert len(series) <= max(cap, 2 + len(dropped))
    assert f'{m.SERIES_DROPPED.name}{{family="{m.NET_BYTES.name}"}} 2' in dropped


@pytest.fixture
def get(exporter):
    connections = []

    def serve(**settings):
        server = exporter(**settings).serve()
        server.start()
        connection = http.client.HTTPConnection(*server.address, timeout=5)
        connections.append((server, connection))

        def get(path: str, **headers: str):
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read(), response.headers

        get.address, get.connection = server.address, connection
        return get

    yield serve
    for server, connection in connections:
        connection.close()
        server.stop()


def test_one_connection_carries_many_requests(get, busy_machine):
    ask = get()

    answers = [ask(path)[0] for path in ("/metrics", "/healthz", "/readyz", "/nothing") * 2]

    assert answers == [200, 200, 200, 404] * 2


def test_the_page_is_plain_unless_gzip_is_asked_for(get, busy_machine):
    ask = get()

    _, plain, headers = ask("/metrics")
    _, packed, packed_headers = ask("/metrics", **{"Accept-Encoding": "gzip"})

    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["Content-Encoding"] is None
    assert packed_headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed).startswith(plain[:100])


def test_openmetrics_is_served_to_those_who_ask_for_it(get, busy_machine):
    _, body, headers = get()("/metrics", Accept="application/openmetrics-text; version=1.0.0")

    families = list(openmetrics.text_string_to_metric_families(body.decode()))
    names = {sample.name for family in families for sample in family.samples}
    assert Form.OPENMETRICS.value == headers["Content-Type"]
    assert names <= SAMPLES.keys()
    assert m.NODE_INFO.name in names


def test_the_page_under_dcgms_names_is_off_unless_asked_for(get, busy_machine):
    assert 404 == get()("/metrics/dcgm")[0]

    status, body, _ = get(legacy_dcgm=True)("/metrics/dcgm")
    assert (200, True) == (status, b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"' in body)


def test_a_source_that_stands_still_makes_the_page_unfit_and_leaves_it_alive(
    get, busy_machine, monkeypatch
):
    ask = get()
    monkeypatch.setattr(FeedReader, "stalled", lambda one, _: one.feed.source.name == "procfs")

    status, body, _ = ask("/readyz")
    assert (503, b"standing still: procfs\n") == (status, body)
    assert [200, 200] == [ask(path)[0] for path in ("/healthz", "/metrics")]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ops?run=gpt-1&from_step=2", 200),
        ("/ops?run=unknown", 404),
        ("/ops", 400),
        ("/ops?run=a&from_step=x", 400),
    ],
)
def test_operations_are_asked_for_by_run(get, busy_machine, path, status):
    assert get()(path)[0] == status


def test_operations_that_cannot_be_read_are_unavailable_and_counted(get, busy_machine, image):
    ask = get()
    bad = image(run="torn")
    bad.op("optimizer", 0, 20, 10)
    busy_machine.ring(bad)

    status, body, _ = ask("/ops?run=torn")

    assert (503, True) == (status, body.startswith(b"no rank of this run can be read now: rank 0"))
    assert b'reason="content",source="rank_ring"' in b"".join(
        b",".join(sorted(line.partition(b"{")[2].partition(b"}")[0].split(b",")))
        for line in ask("/metrics")[1].splitlines()
        if line.startswith(b"lockstep_source_errors_total")
    )


def test_operations_are_packed_for_those_who_take_it(get, busy_machine):
    ask = get()
    _, plain, _ = ask("/ops?run=gpt-1")
    _, packed, headers = ask("/ops?run=gpt-1", **{"Accept-Encoding": "gzip"})

    assert "gzip" == headers["Content-Encoding"]
    assert plain == gzip.decompress(packed)


def test_a_busy_port_is_one_sentence(exporter, busy_machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one = exporter()
        one._config = busy_machine.config(listen=Address("127.0.0.1", port))

        with pytest.raises(ListenError) as caught:
            one.serve()

    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 is in use; choose another with --listen"
    )


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\r\n",
        b"\xff\xfe\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /ops?run=%ff%00&from_step=%31 HTTP/1.1\r\n\r\n",
        b"GET //../../etc/passwd HTTP/1.1\r\n\r\n",
    ],
)
def test_a_hostile_request_leaves_no_traceback_and_the_server_up(
    get, busy_machine, capfd, caplog, request_bytes
):
    ask = get()
    # Who still sends when the answer comes may find the connection closed.
    with (
        suppress(ConnectionError),
        socket.create_connection(ask.address, timeout=5) as raw,
    ):
        raw.sendall(request_bytes)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65536):
            pass

    assert ask("/healthz")[0] == 200
    assert "Traceback" not in capfd.readouterr().err
    assert not [record for record in caplog.records if record.exc_info]


def test_between_two_requests_a_client_may_be_silent_longer_than_before_the_first(
    get, busy_machine, monkeypatch
):
    monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.3)
    ask = get()
    assert 200 == ask("/healthz")[0]
    connection = ask.connection
    ours = connection.sock.getsockname()
    with socket.create_connection(ask.address, timeout=10) as silent:
        assert b"" == silent.recv(1)  # dropped, which took it the 0.3 s

    assert 200 == ask("/healthz")[0]
    assert ours == connection.sock.getsockname()


def test_a_client_that_hangs_up_half_way_is_no_error(get, busy_machine, caplog):
    ask = get()
    raw = socket.create_connection(ask.address, timeout=5)
    raw.sendall(b"GET /metrics HTTP/1.1\r\n" * 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    raw.close()

    assert ask("/healthz")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]
