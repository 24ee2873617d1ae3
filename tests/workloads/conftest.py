"""Small runs of real processes for the workload tests."""

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

import pytest

Forked = Callable[[int, Callable[[int], Any]], list[Any]]


@pytest.fixture
def forked() -> Forked:
    """Calls a function in `world` forked processes and gives their JSON answers in rank order."""

    def run(world: int, work: Callable[[int], Any]) -> list[Any]:
        pipes = []
        for rank in range(world):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    os.close(reading)
                    os.write(writing, json.dumps(work(rank)).encode())
                except BaseException:  # noqa: BLE001 - the test shows it
                    traceback.print_exc()
                finally:
                    os._exit(0)
            os.close(writing)
            pipes.append((pid, reading))
        answers = []
        try:
            for pid, reading in pipes:
                with os.fdopen(reading, "rb") as pipe:
                    text = pipe.read()
                assert text, f"process {pid} gave no answer"
                answers.append(json.loads(text))
        finally:
            for pid, _ in pipes:
                # Who has answered ends by itself; who waits for one that failed never would.
                if len(answers) < world:
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return answers

    return run
