"""Results elsewhere: the same rows in the same order, whatever they are written to."""

import csv
import io
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import results
from lockstep.bench.exports import (
    KEYS,
    as_csv,
    as_json,
    hidden,
    numbers,
    parsed,
    push,
    write_export,
)
from lockstep.bench.results import COLUMNS
from lockstep.bench.spec import BenchError
from tests.bench.rows import row

ROWS = [
    row(cell="a", nodes=1, step_seconds=0.5, node_names=["node-0"], sentence='says "no", twice'),
    row(cell="b", nodes=2, step_seconds=0.25, metric_accuracy=0.8, emulated_devices=True),
]
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def test_csv_has_a_fixed_order_of_columns_and_every_row() -> None:
    header, *lines = list(csv.reader(io.StringIO(as_csv(ROWS))))

    assert [*(column.name for column in COLUMNS), "metric_accuracy"] == header
    first, second = (dict(zip(header, line, strict=True)) for line in lines)
    assert ('["node-0"]', 'says "no", twice', "") == tuple(
        first[name] for name in ("node_names", "sentence", "metric_accuracy")
    )
    assert ("0.8", "True") == (second["metric_accuracy"], second["emulated_devices"])


def test_a_csv_beyond_4096_bytes_keeps_every_row() -> None:
    many = [row(cell=f"c{index:02d}", sentence="x" * 300) for index in range(60)]
    lines = list(csv.DictReader(io.StringIO(as_csv(many))))

    assert [f"c{index:02d}" for index in range(60)] == [line["cell"] for line in lines]
    assert {"x" * 300} == {line["sentence"] for line in lines}


def test_json_says_null_for_what_is_not_known() -> None:
    told = json.loads(as_json(ROWS))

    assert [*(column.name for column in COLUMNS), "metric_accuracy"] == told["columns"]
    assert (None, 0.8) == tuple(each["metric_accuracy"] for each in told["results"])


def test_the_form_is_the_files_ending(tmp_path: Path) -> None:
    write_export(ROWS, tmp_path / "r.csv")
    write_export(ROWS, tmp_path / "r.parquet")

    assert as_csv(ROWS) == (tmp_path / "r.csv").read_text()
    assert ["a", "b"] == [each["cell"] for each in results.read(tmp_path / "r.parquet")]
    with pytest.raises(BenchError, match=r"r.xlsx ends in none of .csv, .json, .parquet"):
        write_export(ROWS, tmp_path / "r.xlsx")
    with pytest.raises(BenchError, match="cannot be written: No such file"):
        write_export(ROWS, tmp_path / "no" / "r.csv")


def test_a_password_is_never_told() -> None:
    url = "postgresql://me:secret@db/x"
    assert "postgresql://me:***@db/x" == hidden(url)
    for part in ("me:se@cret@db/x", "me:se/cret@db/x", "db/x?user=me&password=secret",
                 "db/x?sslpassword=secret&user=me", "me:a@db/x?Token=secret#y"):  # fmt: skip
        assert "cret" not in hidden(f"postgresql://{part}"), part
    with pytest.raises(BenchError) as told:
        push(ROWS, "postgresql://me:secret@127.0.0.1:9/x", "results")
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("results", "is no URL; give s3://"),
        ("s3://[x/y", "is no URL; give s3://"),
        ("s3://", "s3:// names no place; give it as s3://BUCKET/FOLDER"),
        ("nothing://x/y", "needs a package|cannot be written"),
        ("postgresql://127.0.0.1:9/x", "refuses"),
    ],
)
def test_where_nobody_answers_is_told(url: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        push(ROWS, url, "results")


def test_a_table_of_another_name_cannot_be_injected() -> None:
    with pytest.raises(BenchError, match="is no name of a table"):
        push(ROWS, "postgresql://127.0.0.1:9/x", 'x"; DROP TABLE y; --')


def test_storage_of_any_kind_holds_a_part_a_result(tmp_path: Path) -> None:
    push(ROWS, f"file://{tmp_path}/up", "results")
    push(ROWS, f"file://{tmp_path}/up", "results")

    assert ["a", "b"] == [each["cell"] for each in results.read(tmp_path / "up")]


@pytest.mark.slow
def test_s3_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        storage = fsspec.filesystem("s3", skip_instance_cache=True)
        storage.mkdir("bucket")
        push(ROWS, "s3://bucket/nightly", "results")
        push(ROWS, "s3://bucket/nightly", "results")

        storage.invalidate_cache()
        storage.get("bucket/nightly/", f"{tmp_path}/down/", recursive=True)
        assert ["a", "b"] == [each["cell"] for each in results.read(tmp_path / "down")]
    finally:
        running.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a server of Debian's, for this module alone."""
    if not PROGRAMS:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        yield from _served(Path(folder))


def _served(folder: Path) -> Iterator[str]:
    data, bin_ = folder / "data", PROGRAMS[-1]
    as_somebody: list[str] = []
    if os.getuid() == 0:  # it refuses to be root
        shutil.chown(folder, "postgres")
        as_somebody = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    init = [*as_somebody, bin_ / "initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync"]
    subprocess.run(init, check=True, capture_output=True, cwd=folder)
    words = ["-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"]
    server = subprocess.Popen([*as_somebody, bin_ / "postgres", *words], cwd=folder,
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    ready = [bin_ / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "30"]
    try:
        for _ in range(300):
            if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
                break
            if server.poll() is not None:
                pytest.skip("PostgreSQL does not start here")
        yield f"postgresql://me@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait(30)


def _fetched(url: str, sql: str) -> list[tuple[object, ...]]:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@pytest.mark.slow
def test_postgres_holds_them_once_however_often_they_are_pushed(postgres: str) -> None:
    push(ROWS[:1], postgres, "results")
    push(ROWS, postgres, "results")  # with a column that the first had not

    assert [("a", 1, 0.5, None, '["node-0"]'), ("b", 2, 0.25, 0.8, None)] == _fetched(
        postgres, "SELECT cell, nodes, step_seconds, metric_accuracy, node_names FROM results"
        " ORDER BY cell",
    )  # fmt: skip


@pytest.mark.slow
def test_a_result_that_was_measured_again_replaces_itself(postgres: str) -> None:
    push([row(cell="z", step_seconds=0.5)], postgres, "again")
    push([row(cell="z", step_seconds=0.7)], postgres, "again")

    assert [(0.7,)] == _fetched(postgres, "SELECT step_seconds FROM again")


# Logs of tf_cnn_benchmarks: the 14 keys of Kubebench's reports (contract 13 of predecessors).

LOG = """\
TensorFlow:  1.13
Model:       resnet50
Dataset:     imagenet (synthetic)
Mode:        BenchmarkMode.TRAIN
SingleSess:  False
Batch size:  128 global
             64 per device
Num batches: 100
Num epochs:  0.01
Devices:     ['/gpu:0', '/gpu:1']
NUMA bind:   False
Data format: NCHW
Layout optimizer: False
Optimizer:   sgd
Variables:   replicated
Sync:        True
==========
Step\tImg/sec\ttotal_loss
1\timages/sec: 198.1 +/- 0.0 (jitter = 0.0)\t8.124
100\timages/sec: 197.9 +/- 0.2 (jitter = 0.4)\t7.999
----------------------------------------------------------------
total images/sec: 395.51
----------------------------------------------------------------
"""


def test_a_log_yields_the_fourteen_keys() -> None:
    told = parsed(LOG)

    assert KEYS == tuple(told)
    assert 14 == len(KEYS)
    assert (395.51, "1.13", "resnet50", "imagenet (synthetic)", "False", 128.0, 100.0, 0.01) == (
        told["total_images/sec"], told["tensorflow"], told["model"], told["dataset"],
        told["singlesess"], told["batch_size"], told["num_batches"], told["num_epochs"],
    )  # fmt: skip
    assert {"total_images_per_sec": 395.51, "batch_size": 128.0, "num_batches": 100.0,
            "num_epochs": 0.01} == numbers(told)  # fmt: skip


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "no line `total images/sec`"),
        (LOG.partition("total images")[0], "not whole"),
        (LOG.replace("395.51", "nan"), "is 'nan'; it must be a number"),
        (LOG.replace("395.51", "many"), "is 'many'; it must be a number"),
        (LOG.replace("395.51", "1e999"), "is '1e999'; it must be a number"),
    ],
)  # fmt: skip
def test_what_is_no_whole_log_is_refused(log: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        parsed(log)


def test_the_command_prints_the_keys_and_writes_numbers_for_a_row(
    lockstep: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(LOG)
    told = lockstep("bench", "tf-cnn", tmp_path / "log", "--out", tmp_path / "m.json")

    assert "resnet50" == json.loads(told.out)["model"]
    assert 395.51 == json.loads((tmp_path / "m.json").read_text())["total_images_per_sec"]
    assert 65 == lockstep("bench", "tf-cnn", tmp_path / "nowhere").code
