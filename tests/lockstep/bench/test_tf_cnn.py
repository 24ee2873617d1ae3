"""Logs of tf_cnn_benchmarks: the 14 keys of Kubebench's reports (contract 13 of predecessors)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench.spec import BenchError
from lockstep.bench.tf_cnn import KEYS, numbers, parsed

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
