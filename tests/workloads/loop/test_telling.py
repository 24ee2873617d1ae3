"""What the rank that knows the loss tells: Megatron-LM's line, and TensorBoard's curves."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch

from lockstep.workloads.loop.progress import LINE_STEPS, Iteration, Teller, iteration_line
from lockstep.workloads.loop.trainable import Counts
from lockstep.workloads.measure import peak
from lockstep.workloads.measure.flops import per_token
from lockstep.workloads.measure.peak import Peak
from lockstep.workloads.spec import Layout, RunSpec, Training

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
TOLD = Iteration(
    number=20, of=250, batch=8, consumed=160, seconds=0.0625, tokens=2048.0, samples=32.0,
    flops=4.5e11, peak=None, rate=3e-3, loss=2.5, norm=0.75, skipped=1, nans=2, formula="megatron",
)  # fmt: skip


def test_the_line_is_megatrons() -> None:
    """As training_log of Megatron-LM's training.py builds it, with --log-throughput."""
    wanted = " [2026-03-04 05:06:07]"
    wanted += f" iteration {20:8d}/{250:8d} |"
    wanted += f" consumed samples: {160:12d} |"
    wanted += f" elapsed time per iteration (ms): {62.5:.1f} |"
    wanted += f" throughput per GPU (TFLOP/s/GPU): {450.0:.1f} |"
    wanted += f" learning rate: {3e-3:.6E} |"
    wanted += f" global batch size: {8:5d} |"
    wanted += f" lm loss: {2.5:.6E} |"
    wanted += f" loss scale: {1.0:.1f} |"
    wanted += f" grad norm: {0.75:.3f} |"
    wanted += f" number of skipped iterations: {1:3d} |"
    wanted += f" number of nan iterations: {2:3d} |"

    assert wanted == iteration_line(replace(TOLD, flops=4.5e14), AT)


def test_a_share_of_a_measured_peak_is_not_called_mfu() -> None:
    line = iteration_line(replace(TOLD, peak=peak.of_core(9e12)), AT)

    assert line.endswith(" | share of the GEMM peak measured here (%, megatron): 5.00 |")
    assert "MFU" not in line
    assert "throughput per GPU (TFLOP/s/GPU): 0.450000 |" in line


def test_a_share_of_a_data_sheet_is_mfu_with_its_formula() -> None:
    told = replace(TOLD, flops=494.5e12, peak=peak.of_gpu("NVIDIA H100 80GB HBM3"))

    assert iteration_line(told, AT).endswith(" | MFU (%, megatron): 50.00 |")


@pytest.mark.parametrize(
    ("name", "tera"),
    [("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA H100 PCIe", 756), ("NVIDIA H200", 989)],
)
def test_a_gpu_has_the_peak_of_its_data_sheet(name: str, tera: float) -> None:
    found = peak.of_gpu(name)

    assert found is not None
    assert tera * 1e12 == found.flops


def test_a_gpu_that_nobody_knows_has_no_peak() -> None:
    assert peak.of_gpu("Radeon") is None


def test_the_peak_of_a_core_is_measured_quickly_and_leaves_the_threads_alone() -> None:
    threads = torch.get_num_threads()
    found = peak.measured()

    assert 1e8 < found < 1e13
    assert threads == torch.get_num_threads()


COUNTS = Counts(2, 2 * 64, per_token(Training().config) * 2 * 64)
"""Of one replica of two."""


def told(folder: Path | None, losses: list[float], peak: Peak | None = None) -> None:
    spec = RunSpec("run", "gpt", Layout(2, 1, 2), 50, 0, Training())
    teller = Teller(spec, COUNTS, peak, folder, now=lambda: AT)
    for step, loss in enumerate(losses):
        teller.step(step, 0.5, loss, 1e-3, torch.tensor(2.0), torch.tensor(3.0))
    teller.close()


def test_means_are_of_the_steps_since_the_last_line_and_counts_of_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told(None, [4.0] * 9 + [math.nan] + [2.0] * 10 + [1.0] * 5)
    first, second = capsys.readouterr().out.splitlines()

    assert "lm loss: 4.000000E+00" in first
    assert "lm loss: 2.000000E+00" in second
    for line in (first, second):
        assert line.endswith("number of skipped iterations:   3 | number of nan iterations:   1 |")
    assert "iteration       20/      50 | consumed samples:           80 |" in second


def test_a_line_without_a_finite_loss_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    told(None, [math.inf] * LINE_STEPS)
    (line,) = capsys.readouterr().out.splitlines()

    assert "lm loss" not in line
    assert line.endswith(f"number of nan iterations: {LINE_STEPS:3d} |")


def test_tensorboard_reads_what_the_line_says(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    told(tmp_path / "tensorboard", [4.0] * 10 + [2.0] * 10, peak.of_core(1e9))
    (file,) = (tmp_path / "tensorboard").iterdir()
    events = [Event.FromString(record) for record in records(file.read_bytes())]
    points = {
        (event.step, value.tag): value.simple_value
        for event in events
        for value in event.summary.value
    }
    tokens = 4 * 64 / (0.5 * 2)
    flops = per_token(Training().config) * tokens

    assert "brain.Event:2" == events[0].file_version
    assert {AT.timestamp()} == {event.wall_time for event in events[1:]}
    assert {10, 20} == {step for step, _ in points}
    assert points == {
        (step, tag): pytest.approx(value)
        for step, loss in ((10, 4.0), (20, 2.0))
        for tag, value in {
            "lm loss": loss, "learning-rate": 1e-3, "grad-norm": 2.0, "iteration-time": 0.5,
            "tokens-per-second-per-device": tokens, "samples-per-second-per-device": 4.0,
            "throughput (megatron TFLOP/s per device)": flops / 1e12,
            "share of the GEMM peak measured here (megatron)": flops / 1e9,
        }.items()
    }  # fmt: skip


def test_a_curve_is_on_disk_before_its_writer_is_closed(tmp_path: Path) -> None:
    spec = RunSpec("run", "gpt", Layout(2, 1, 2), 50, 0, Training())
    teller = Teller(spec, COUNTS, None, tmp_path / "tensorboard", now=lambda: AT)
    for step in range(2 * LINE_STEPS):
        teller.step(step, 0.5, 2.0, 1e-3, torch.tensor(2.0), torch.tensor(3.0))
    (file,) = (tmp_path / "tensorboard").iterdir()
    deadline = monotonic() + 60
    while file.read_bytes().count(b"lm loss") < 2 and monotonic() < deadline:
        sleep(0.05)
    found = file.read_bytes().count(b"lm loss")
    teller.close()

    assert 2 == found


def records(raw: bytes) -> list[bytes]:
    """TFRecords: length, its checksum, data, its checksum (TensorFlow's record_writer.cc)."""
    found = []
    while raw:
        size = int.from_bytes(raw[:8], "little")
        data = raw[12 : 12 + size]
        assert masked_crc32c(raw[:8]) == int.from_bytes(raw[8:12], "little")
        assert masked_crc32c(data) == int.from_bytes(raw[12 + size : 16 + size], "little")
        found.append(data)
        raw = raw[16 + size :]
    return found


def masked_crc32c(data: bytes) -> int:
    """RFC 3720's checksum, rotated and shifted as TFRecords have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
