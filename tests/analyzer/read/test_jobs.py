"""Which GPUs belong to one job, from what the nodes tell of their allocation."""

import pandas as pd

from lockstep.analyzer.read.jobs import jobs


def held(*rows):
    frame = pd.DataFrame(rows, columns=["time", "node", "gpu", "labels"])
    return frame.assign(metric="lockstep_gpu_allocation_info", value=1.0, rank=pd.NA).astype(
        {"gpu": "Int32", "rank": "Int32"}
    )


def labels(namespace="", pod="", slurm=""):
    return f'claim="",container="c",namespace="{namespace}",pod="{pod}",slurm_job="{slurm}"'


def test_pods_that_differ_in_their_number_are_one_job():
    samples = held(
        (0.0, "a", 0, labels("ml", "train-worker-0")),
        (0.0, "b", 1, labels("ml", "train-worker-1")),
        (0.0, "b", 2, labels("other", "train-worker-1")),
    )

    assert {"ml/train-worker": (("a", 0), ("b", 1)), "other/train-worker": (("b", 2),)} == jobs(
        samples
    )


def test_a_slurm_job_is_one_on_all_its_nodes():
    samples = held((0.0, "a", 0, labels(slurm="77")), (0.0, "b", 0, labels(slurm="77")))

    assert {"slurm-77": (("a", 0), ("b", 0))} == jobs(samples)


def test_a_gpu_belongs_to_the_last_job_that_held_it():
    samples = held((0.0, "a", 0, labels(slurm="1")), (9.0, "a", 0, labels(slurm="2")))

    assert {"slurm-2": (("a", 0),)} == jobs(samples)


def test_a_gpu_that_two_jobs_share_belongs_to_neither():
    samples = held((0.0, "a", 0, labels(slurm="1")), (0.0, "a", 0, labels(slurm="2")))

    assert {} == jobs(samples)


def test_nobody_who_tells_of_allocation_is_no_job():
    assert {} == jobs(held())
    assert {} == jobs(held((0.0, "a", 0, labels())))
