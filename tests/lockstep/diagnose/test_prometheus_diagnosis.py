"""`lockstep analyze --prometheus`: what may be asked, and how it ends where nothing answers."""

import socket

import pytest


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
