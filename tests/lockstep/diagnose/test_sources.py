"""`lockstep analyze` of a Prometheus and of a trace: what may be asked, and how it fails."""

import json
import socket

import numpy as np
import pandas as pd
import pytest

from lockstep.evaluation.synth import traces as synth


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give the archive DIR of a run"),
        (["--run", "x", "--gpus", "a:0"], "--run and --gpus go with --prometheus URL"),
        (["runs/x", "--since", "1h"], "--since goes with --prometheus URL"),
        (["--prometheus", "http://h:1"], "--prometheus needs --run ID"),
        (["runs/x", "--prometheus", "http://h:1", "--run", "x"], "not both"),
        (["--prometheus", "h:1", "--run", "x"], "is no address"),
        (["--prometheus", "http://h:1", "--run", ""], "--run is empty"),
        (["--prometheus", "http://h:1", "--run", "x", "--gpus", "a:0"], "--gpus goes without"),
        (["--prometheus", "http://h:1", "--gpus", "node-1"], "write them as node-1:0-7"),
        (["--prometheus", "http://h:1", "--run", "x", "--gpu-hour-price", "inf"], "is not a price"),
    ],
)
def test_a_wrong_question_is_usage(lockstep, arguments, expected):
    answer = lockstep("analyze", *arguments)

    assert (64, "") == (answer.code, answer.out)
    assert expected in answer.err


def test_a_prometheus_that_is_not_there_is_a_source_that_cannot_be_reached(lockstep):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answer = lockstep("analyze", "--prometheus", f"http://127.0.0.1:{port}", "--run", "x")

    assert 69 == answer.code
    assert f"lockstep: http://127.0.0.1:{port} cannot be reached; is that the address" in answer.err
    assert 1 == answer.err.count("\n")


META = "dp_size: 4\npp_size: 2\ntp_size: 1\n"


def write(path, **scene):
    trace = synth.trace(synth.Scene(**({"pp": 2, "micro_batches": 4, "steps": 12} | scene)))
    op, dp, step = (axis.reshape(-1) for axis in np.indices(trace.start.shape))
    pd.DataFrame(
        {
            "dp_rank": dp, "stage": trace.stage[op], "rank": trace.ranks[dp, trace.stage[op]],
            "step": trace.steps[step], "optype": trace.optype[op],
            "start_ts": trace.start.reshape(-1), "duration": trace.duration.reshape(-1),
            "seq_id": trace.seq[op], "mc": trace.chunk[op], "gmc": trace.global_chunk[op],
            "mb_id": trace.micro_batch[op],
        }
    ).to_parquet(path)  # fmt: skip
    return path


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Rank 5 (dp 1, stage 1) takes 1.3 times as long."""
    return write(tmp_path_factory.mktemp("slow") / "ops.parquet", slow=(synth.Slow(1, 1, 1.3),))


def test_a_slow_worker_is_named_and_exits_2(lockstep, slow):
    answer = lockstep("analyze", "--trace", slow, "--layout", "dp=4,pp=2", "-o", "json")
    tree = json.loads(answer.out)

    assert 2 == answer.code
    assert [5] == [one["rank"] for one in tree["culprits"]]
    assert "simulation" == tree["what_if"]["method"]


def test_a_meta_file_tells_the_layout_as_well(lockstep, slow, tmp_path):
    (tmp_path / "meta.yaml").write_text(META)
    answer = lockstep("analyze", "--trace", slow, "--meta", tmp_path / "meta.yaml")

    assert 2 == answer.code
    assert answer.out.startswith("Rank 5 (dp 1, stage 1) is 1.30x slower")


def test_a_healthy_trace_exits_0_and_one_step_exits_3(lockstep, tmp_path):
    healthy = write(tmp_path / "healthy.parquet")
    short = write(tmp_path / "short.parquet", steps=1)

    assert [0, 3] == [lockstep("analyze", "--trace", path).code for path in (healthy, short)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--layout", "dp=4"], 64, "--layout and --meta go with --trace"),
        (["--trace", "{trace}", "--layout", "qq=4"], 64, "--layout has no part 'qq'"),
        (["--trace", "{trace}", "--layout", "dp=4", "--meta", "x"], 64, "not both"),
        (["runs/x", "--trace", "{trace}"], 64, "--trace goes without DIR"),
        (["--trace", "{trace}", "--gpu-hour-price", "inf"], 64, "is not a price"),
        (["--trace", "{trace}", "--layout", "dp=2,pp=2"], 65, "dp=4 would fit"),
        (["--trace", "nowhere.parquet"], 65, "nowhere.parquet does not exist"),
        (["--trace", "{trace}", "--meta", "nowhere.yaml"], 65, "is not a readable meta file"),
        (["--trace", __file__], 65, "is no whole Parquet file"),
    ],
)
def test_what_is_no_trace_is_said_in_a_sentence(lockstep, slow, arguments, code, words):
    answer = lockstep("analyze", *(each.replace("{trace}", str(slow)) for each in arguments))

    assert (code, "") == (answer.code, answer.out)
    assert words in answer.err
