import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from lockstep.workloads.measure.gloo_threads import NAME, wait_for_rest


def thread(tasks: Path, number: int, state: str, name: str = NAME) -> Path:
    stat = tasks / str(number) / "stat"
    stat.parent.mkdir(parents=True)
    stat.write_text(f"{number} ({name}) {state} 1 2 3")
    return stat


@pytest.mark.parametrize("state", ["R", "D"])
def test_a_thread_that_runs_or_is_ready_to_is_waited_for(tmp_path, state):
    thread(tmp_path, 1, "S")
    stat = thread(tmp_path, 2, state)
    assert not wait_for_rest(tmp_path, longest=0.05)

    def fall_asleep():
        sleep(0.05)
        stat.write_text(f"2 ({NAME}) S 1 2 3")

    other = Thread(target=fall_asleep)
    other.start()
    assert wait_for_rest(tmp_path, longest=60.0)
    other.join()


def test_nobody_else_is_waited_for(tmp_path):
    thread(tmp_path, 1, "S")
    thread(tmp_path, 2, "R", "python")
    thread(tmp_path, 3, "R", "pt_autograd_0")
    assert wait_for_rest(tmp_path, longest=0.0) is False  # not even looked at
    assert wait_for_rest(tmp_path, longest=60.0)


def test_where_the_kernel_does_not_tell_nobody_is_waited_for(tmp_path):
    assert wait_for_rest(tmp_path / "absent", longest=60.0)


PROGRAM = """
import atexit
import sys
atexit.register(lambda: print("at exit", gloo_threads.wait_for_rest.called))
import torch
import torch.distributed as dist
from lockstep.workloads.measure import gloo_threads
import lockstep

waited = gloo_threads.wait_for_rest
def seen():
    seen.called = waited()
seen.called = None
gloo_threads.wait_for_rest = seen
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
environment = {"LOCKSTEP_DIR": sys.argv[1], "LOCKSTEP_RUN": "mine"}
recorder = lockstep.recorder(rank=0, world=2, environment=environment)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
with recorder.step():
    model(torch.ones(1, 2)).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.distributed
def test_a_rank_whose_buckets_were_timed_ends_only_when_gloos_threads_rest(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "at exit True" in done.stdout
