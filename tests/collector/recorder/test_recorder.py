"""From rings through real HTTP into Parquet and back."""

import contextlib
import http.server
import json
import threading
import time

import pyarrow
import pyarrow.parquet as pq
import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Address
from lockstep.collector.contract import archive
from lockstep.collector.exporter.exporter import Exporter
from lockstep.collector.recorder import recorder as recorder_module
from lockstep.collector.recorder.parts import arrow_schema
from lockstep.collector.recorder.recorder import Recorder, RecorderError
from lockstep.collector.recorder.rows import AnswerError, rank_answers, sample_rows
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler

TABLES = {
    archive.SAMPLES_FILE: archive.SAMPLES,
    archive.STEPS_FILE: archive.STEPS,
    archive.OPS_FILE: archive.OPS,
}


@pytest.fixture
def node(machine):
    """A collector of the fake machine, on a real port."""
    machine.host()
    machine.process(100)
    clock = SystemClock()
    config = machine.config(listen=Address("127.0.0.1", 0), fast_period=0.05)
    sampler = Sampler(feeds(config, clock), clock, config.ttl)
    server = Exporter(config, sampler, clock).serve()
    sampler.start()
    server.start()
    sampler.wait_ready()
    yield f"http://{server.address}"
    server.stop()
    sampler.stop()


@pytest.fixture
def fake_node():
    """A server that answers every path with the same bytes."""
    with contextlib.ExitStack() as stack:

        def start(raw: bytes) -> str:
            class Handler(http.server.BaseHTTPRequestHandler):
                def handle(self):
                    self.rfile.readline()
                    self.wfile.write(raw)

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


def table(folder, name: str) -> list[dict]:
    return pq.read_table(folder / name).to_pylist()


def test_the_archive_holds_what_the_rings_held(machine, image, node, tmp_path):
    machine.ring(image(rank=0, world=2).training(10))
    machine.ring(image(rank=1, world=2).training(10, late=2_000_000))
    recorder = Recorder({"node-0": node}, tmp_path / "run", "gpt-1", SystemClock(), settle=0.2)
    recorder.start()
    time.sleep(0.25)
    machine.ring(image(rank=0, world=2).training(20))
    machine.ring(image(rank=1, world=2).training(20, late=2_000_000))
    recorder.stop()

    steps = table(tmp_path / "run", archive.STEPS_FILE)
    ops = table(tmp_path / "run", archive.OPS_FILE)
    samples = table(tmp_path / "run", archive.SAMPLES_FILE)
    assert recorder.errors == 0
    assert sorted((row["rank"], row["step"]) for row in steps) == [
        (rank, step) for rank in (0, 1) for step in range(20)
    ]
    assert len(ops) == len({(row["rank"], row["step"], row["optype"]) for row in ops}) == 120
    assert {row["start_ts"] for row in ops if row["optype"] == "forward-compute"} == {0.0, 0.002}
    first = {row["start_ns"] for row in ops if row["rank"] == 0 and row["step"] == 0}
    assert first == {1_800_000_000_000_000_007 + offset for offset in (0, 10**7, 2 * 10**7)}
    assert {row["value"] for row in samples if row["metric"] == "up"} == {1.0}
    own = [row for row in samples if row["metric"] == "lockstep_train_phase_seconds_total"]
    assert {(row["node"], row["rank"], row["gpu"]) for row in own} == {
        ("node-0", 0, None),
        ("node-0", 1, None),
    }
    assert 'phase="forward"' in {row["labels"] for row in own}


@pytest.mark.parametrize(("name", "columns"), TABLES.items())
def test_tables_have_exactly_the_columns_of_the_contract(node, tmp_path, name, columns):
    recorder = Recorder({"node-0": node}, tmp_path, "gpt-1", SystemClock(), settle=0.0)
    recorder.stop()

    schema = pq.read_table(tmp_path / name).schema
    assert [(field.name, field.type) for field in schema] == [
        (column.name, pyarrow.type_for_alias(column.dtype)) for column in columns
    ]
    assert schema.field(0).metadata[b"help"].decode() == columns[0].help


def test_only_closed_parts_are_in_the_archive(node, tmp_path):
    for _ in range(2):
        Recorder({"node-0": node}, tmp_path, "gpt-1", SystemClock(), settle=0.0).stop()

    names = sorted(path.name for path in (tmp_path / archive.SAMPLES_FILE).iterdir())
    assert names == ["part-000000.parquet", "part-000001.parquet"]


GOOD = b'{"schema_version": 1, "run": "gpt-1", "ranks": []}'


def test_a_step_of_unknown_own_time_is_recorded_as_such(machine, image, node, tmp_path):
    ring = image(rank=0, world=1).training(2)
    ring.step(2, ring.step_records[-1][1] + 50_000_000, 50_000_000, known=False)
    machine.ring(ring)
    recorder = Recorder({"node-0": node}, tmp_path, "gpt-1", SystemClock(), settle=0.0)
    recorder.stop()

    steps = table(tmp_path, archive.STEPS_FILE)
    assert [0.0125, 0.0125, None] == [row["own_seconds"] for row in steps]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\xff{{{{ 1 1",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ],
)
def test_a_collector_that_answers_garbage_is_down_and_the_rest_is_recorded(
    machine, image, node, fake_node, tmp_path, caplog, raw
):
    machine.ring(image(rank=0, world=1).training(3))
    targets = {"node-0": node, "node-1": fake_node(raw)}
    recorder = Recorder(targets, tmp_path, "gpt-1", SystemClock(), settle=0.0)
    recorder.stop()

    samples = table(tmp_path, archive.SAMPLES_FILE)
    ups = {(row["node"], row["value"]) for row in samples if row["metric"] == "up"}
    assert ups == {("node-0", 1.0), ("node-1", 0.0)}
    assert len(table(tmp_path, archive.STEPS_FILE)) == 3
    assert recorder.errors == 4
    # Samplers of other tests, still about to end, may log beside it.
    assert (
        len(
            [each for each in caplog.records if each.name == "lockstep.collector.recorder.recorder"]
        )
        == 1
    )


def test_a_collector_that_is_gone_is_down(tmp_path):
    recorder = Recorder(
        {"node-0": "http://127.0.0.1:9"}, tmp_path, "gpt-1", SystemClock(), settle=0.0
    )
    recorder.stop()

    samples = table(tmp_path, archive.SAMPLES_FILE)
    assert {(row["metric"], row["value"]) for row in samples} == {("up", 0.0)}


def test_a_collector_that_drips_is_given_up_in_time(tmp_path):
    class Drip(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(100):
                    self.wfile.write(b"# \n")
                    time.sleep(0.02)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    recorder = Recorder({"node-0": url}, tmp_path, "gpt-1", SystemClock(), period=0.1, settle=0.0)
    began = time.monotonic()
    recorder.stop()
    took = time.monotonic() - began
    server.shutdown()
    server.server_close()

    assert took < 6  # the four answers would take two seconds each
    assert recorder.errors == 4


def test_a_folder_that_cannot_be_written_is_one_sentence(node, tmp_path):
    recorder = Recorder({"node-0": node}, tmp_path, "gpt-1", SystemClock(), settle=0.0)
    folder = tmp_path / archive.SAMPLES_FILE
    folder.rmdir()
    folder.write_text("in the way")

    with pytest.raises(RecorderError, match="the archive is incomplete"):
        recorder.stop()


def test_a_ranks_gpu_has_the_number_that_its_nodes_page_gives_it(
    machine, image, node, tmp_path, monkeypatch
):
    """A rank counts the GPUs that it may see, the driver all of them."""
    machine.ring(image(rank=0, world=3, gpu=0, uuid="GPU-7").training(4))
    machine.ring(image(rank=1, world=3, gpu=1, uuid="GPU-9").training(4))
    machine.ring(image(rank=2, world=3, gpu=-1, uuid="").training(4))
    page = 'lockstep_gpu_info{gpu="3",uuid="GPU-7",model="H200"} 1\n'
    told = recorder_module.sample_rows
    monkeypatch.setattr(
        recorder_module, "sample_rows", lambda text, *more: told(text + page, *more)
    )
    recorder = Recorder({"node-0": node}, tmp_path / "run", "gpt-1", SystemClock(), settle=0.2)
    recorder.start()
    time.sleep(0.25)
    recorder.stop()

    assert {0: (3, "GPU-7"), 1: (None, "GPU-9")} == recorder.gpus


def test_a_ranks_place_is_what_its_ring_says(machine, image, node, tmp_path):
    machine.ring(image(rank=0, world=2).training(4))
    machine.ring(image(rank=1, world=2, pp=1).training(4))
    recorder = Recorder({"node-0": node}, tmp_path / "run", "gpt-1", SystemClock(), settle=0.2)
    recorder.start()
    time.sleep(0.25)
    recorder.stop()

    assert {0: (0, 0, 0), 1: (1, 1, 0)} == recorder.places


def test_samples_of_other_runs_and_foreign_metrics_are_left_out():
    page = (
        'lockstep_rank_up{run="a",rank="0"} 1\n'
        'lockstep_rank_up{run="b",rank="0"} 1\n'
        'lockstep_gpu_clock_hertz{gpu="3",uuid="x",domain="sm"} 5\n'
        "node_load1 3\n"
    )

    assert sample_rows(page, 7.0, "n", "a") == [
        (7.0, "n", None, 0, "lockstep_rank_up", "", 1.0),
        (7.0, "n", 3, None, "lockstep_gpu_clock_hertz", 'domain="sm"', 5.0),
    ]


@pytest.mark.parametrize("page", ['lockstep_gpu_up{gpu="x",uuid="y"} 1\n', "a{ 1\n", "a b c d\n"])
def test_a_page_that_makes_no_sense_is_refused(page):
    with pytest.raises(AnswerError):
        sample_rows(page, 0.0, "n", "a")


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"run": "other"},
        {"ranks": None},
        {"ranks": [{}]},
        {"ranks": 3},
    ],
)
def test_an_answer_that_is_not_as_agreed_is_refused(change):
    with pytest.raises(AnswerError):
        rank_answers(json.dumps(json.loads(GOOD) | change).encode(), "gpt-1")


def test_the_schema_is_the_contracts():
    schema = arrow_schema(archive.RANKS)

    assert schema.names == [column.name for column in archive.RANKS]
    assert schema.field("gpu").type == pyarrow.int32()
