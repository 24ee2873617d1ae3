"""Programs that know nothing of Lockstep: their log lines, and what is put on their PYTHONPATH."""

import math
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic_ns

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import scan
from lockstep.workloads.launch.external_program.choice import Choice
from lockstep.workloads.launch.external_program.follow import MOST_STEPS, Follower
from lockstep.workloads.launch.external_program.launcher import HOOK, environment_of
from lockstep.workloads.launch.external_program.patterns import PatternError, compiled, loss_alone
from lockstep.workloads.sdk.holder import Means, holder
from lockstep.workloads.sdk.start import UnwritableError, started
from lockstep.workloads.spec import Layout
from tests.benchmarks import mutated_captures
from tests.wild import wild
from tests.workloads.launch.training_logs import LINES, said


@pytest.fixture
def environment(tmp_path):
    return {"LOCKSTEP_DIR": str(tmp_path), "LOCKSTEP_RUN": "mine", "LOCKSTEP_NODE": "node-0"}


class Hands:
    """A clock that a test turns."""

    def __init__(self):
        self.now = monotonic_ns()

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Hands()


@pytest.fixture
def follower(tmp_path, environment, clock):
    return Follower(tmp_path / "log", Choice(), environment, clock)


@pytest.fixture
def says(tmp_path, follower, clock):
    def write(text, seconds=1.0):
        clock.now += round(seconds * 1e9)
        with (tmp_path / "log").open("a") as log:
            log.write(text)
        follower.look()

    return write


def steps(folder: Path):
    (rank,), _ = scan(folder, Path("/proc"), SystemClock())
    # The test's clock runs ahead of ours, and the reader drops what lies in its future.
    clock = SystemClock()
    clock.monotonic = lambda: rank.header.heartbeat_ns / 1e9 + 3600
    return read_records(rank.path, 0, None, clock).steps


def counted(choice: Choice, *lines: str) -> list[int]:
    """The steps that lines, one a second, add to the count."""
    return [heard.said.step for when, line in enumerate(lines) for heard in choice.find(line, when)]


def accumulated(form: str, parts: int = 2, optimizer_steps: int = 3, first: int = 0) -> list[str]:
    """A log in which every part of a step writes a line; `part`, `of`, `step` and `loss` in it."""
    return [
        form.format(
            batch=done + 1, step=first + (done + 1) // parts, loss=2.0 - done / 100,
            part=done % parts + 1, of=parts, epoch=1 + done // 1000, now=first + done // parts + 1,
        )
        for done in range(parts * optimizer_steps)
    ]  # fmt: skip


@pytest.mark.parametrize("parts", [2, 4, 16])
@pytest.mark.parametrize(
    "form",
    [
        "Epoch 1 | iter {batch} step {step} | loss train: {loss:.3f}, val: n/a | iter time: 8.2 ms",
        "step {step} | iter {batch} | loss {loss:.3f}",
        "iter: {batch}, step: {step}, loss: {loss:.3f}, lr: 0.0001",
        '{{"iter": {batch}, "step": {step}, "loss": {loss:.3f}}}',
        "batch {batch}/400 global_step {step} loss {loss:.3f}",
        "[train] iteration {batch}, optimizer step {step}, loss = {loss:.3f}, batch 32",
        "step {batch}: global_step {step}, loss {loss:.3f}",
        "step {step} micro step {part}/{of} loss {loss:.3f}",
        "Micro batch {part}/{of} of step {step}, loss={loss:.3f}",
        "epoch 1 batch {batch} num_updates {step} loss {loss:.3f}",
    ],
)
def test_of_two_counters_in_a_line_the_optimizer_s_is_counted(form, parts):
    steps = counted(Choice(), *accumulated(form, parts))

    assert [0, 1, 2, 3] == sorted(set(steps))
    assert len(steps) == 4  # the first says where the count begins


@pytest.mark.parametrize(
    "form",
    [
        "iter {batch} loss {loss:.3f} step 1",  # of a curriculum
        "iter {batch} loss {loss:.3f}",
        "iter {batch} | step {batch} | loss {loss:.3f}",
    ],
)
def test_a_better_name_that_never_moves_or_moves_alike_takes_no_step_away(form):
    lines = accumulated(form, parts=1, optimizer_steps=100)

    assert len(set(counted(Choice(), *lines))) == 100


def test_parts_on_lines_of_their_own_give_way_to_the_steps_that_they_are_of():
    lines = [
        line
        for step in range(12)
        for line in (
            *(f"micro batch {part}/8 loss 2.{step}" for part in range(1, 9)),
            f"step {step + 1} loss 2.{step} lr 0.1",
        )
    ]

    assert [*range(1, 13)] == counted(Choice(), *lines)


def test_a_bar_over_micro_batches_gives_way_to_the_steps_that_it_is_over():
    lines = [
        line
        for step in range(20)
        for line in (
            *(f" 3%|▎ | {8 * step + part}/400 [00:01<00:09, 9.9it/s, loss=0.5]"
              for part in range(1, 9)),
            f"step {step + 1} loss 0.5 lr 0.1",
        )
    ]  # fmt: skip
    steps = counted(Choice(), *lines)

    assert steps[-10:] == [*range(11, 21)]


def test_a_line_every_ten_steps_of_a_bar_tells_no_other_steps():
    bar = " 3%|▎ | {0}/400 [00:01<00:09, 9.9it/s, loss=0.5]"
    lines = [
        line
        for step in range(1, 101)
        for line in (bar.format(step), *([f"step {step} loss 0.5"] if step % 10 == 0 else []))
    ]

    assert 100 == len(set(counted(Choice(), *lines)))


MLLOG = (
    ':::MLLOG {{"namespace": "", "time_ms": 17{when}, "event_type": "{kind}", "key": "{key}",'
    ' "value": {value}, "metadata": {{"file": "train.py", "lineno": 9{more}}}}}'
)


def mllog(key, value, more="", when=0, kind="POINT_IN_TIME"):
    return MLLOG.format(key=key, value=value, more=more, when=when, kind=kind)


@pytest.mark.parametrize("name", ["samples_count", "step", "sample_count"])
def test_samples_of_mlperf_s_log_are_counted_as_steps_by_the_batch_that_it_tells(name):
    lines = [mllog("global_batch_size", 288), mllog("seed", 7), mllog("train_samples", 9999)]
    lines += [
        line
        for step in range(1, 5)
        for line in (
            mllog("train_loss", 2.5 / step, f', "{name}": {288 * step}', when=step),
            mllog("tracked_stats", '{"throughput": 3.1}', f', "{name}": {288 * step}', when=step),
        )
    ]
    lines += [mllog("eval_accuracy", 0.7, f', "{name}": 1152'), mllog("run_stop", "null")]
    choice = Choice()
    found = [heard.said for when, line in enumerate(lines) for heard in choice.find(line, when)]

    assert [1, 2, 3, 4] == [said.step for said in found]
    assert pytest.approx([2.5, 1.25, 2.5 / 3, 0.625]) == [said.loss for said in found]


def test_mlperf_s_steps_that_are_steps_stay_so():
    lines = [mllog("global_batch_size", 288)]
    lines += [mllog("tracked_stats", "{}", f', "step": {step}') for step in range(1, 9)]

    assert [*range(1, 9)] == counted(Choice(), *lines)


def test_samples_without_a_batch_size_are_no_steps():
    lines = [mllog("train_loss", 2.0, f', "samples_count": {288 * step}') for step in range(1, 9)]

    assert [] == counted(Choice(), *lines)


def test_a_public_log_of_litgpt_has_three_steps():
    text = wild("incidents/62-log-litgpt/input.log").read_text()
    steps = counted(Choice(), *text.splitlines())

    assert [0, 1, 2, 3] == steps


@pytest.mark.parametrize("name", LINES)
def test_the_line_of_each_framework_is_understood(name):
    line, step, loss = LINES[name]
    found = said(line)

    assert step == found.step
    assert math.isnan(loss) == math.isnan(found.loss)
    assert math.isnan(loss) or loss == found.loss


def real(name: str) -> list[str]:
    """The lines of a log that was recorded elsewhere, bars drawn again among them."""
    return wild(f"training_logs/{name}").read_text().replace("\r", "\n").splitlines()


@pytest.mark.parametrize(
    ("name", "steps", "losses"),
    [
        ("megatron-llm-a100-issue11.log", [122, 123, 124, 125], [2.50422, 2.493043, 2.559583]),
        ("torchtitan-pr3393.log", [14, 15, 16, 17], [3.24405, 3.1068, 3.05047]),
        ("nemo2-bionemo-pr740.log", [120, 121, 122], [1.233, 1.288, 1.333]),
        ("deepspeed-timer-issue1825.log", [40, 50, 60], []),
        ("mmdet-issue2672.log", [1200, 1250], [0.4606, 0.5449]),
        ("tensorflow-slim-issue2980.log", [1, 2, 3, 5], [79.3501, 72.8609, 67.3308]),
    ],
)
def test_the_steps_of_real_logs_are_counted(name, steps, losses):
    choice = Choice()
    heard = [each.said for when, line in enumerate(real(name)) for each in choice.find(line, when)]

    assert steps == [each.step for each in heard]
    assert losses == [each.loss for each in heard[:3] if each.tells_loss][: len(losses)]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("lightning-nnue-bar.log", [(4846, 0.0136)]),
        ("gpt-neox-deepspeed-wall-clock-breakdown.log", [(34, None), (34, 11.18665), (35, None)]),
    ],
)
def test_a_real_log_of_one_step_says_which(name, found):
    each = [one for line in real(name) if (one := said(line)) is not None]

    assert found == [(one.step, one.loss if one.tells_loss else None) for one in each]


def test_five_iterations_with_timers_in_milliseconds_are_four_steps(tmp_path, says):
    for line in real("gpt-neox-five-iterations-extrapolated.log"):
        says(f"{line}\n")

    assert 4 == len(steps(tmp_path))


BREAKDOWN = """\
[INFO] [timer.py:215:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec=7.8, x
[INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward: 652 | step: {1}
step: {1} | loss is fine
 samples/sec: 7.799 | iteration       {0}/   10000 | learning rate: 2.1E-06 | lm_loss: 1.1E+01 |
"""


def test_numbers_that_move_by_any_amounts_are_never_steps(tmp_path, says):
    for index, milliseconds in enumerate((1172, 1180, 1169, 1301, 1302, 1190, 1210)):
        says(BREAKDOWN.format(34 + index, milliseconds))

    assert 6 == len(steps(tmp_path))


def test_milliseconds_alone_are_no_steps():
    lines = [f"step: {number}" for number in (1172, 1180, 1169, 1301, 1302, 1190, 1210, 1170)]

    assert [] == counted(Choice(), *lines)


def test_a_number_by_hand_without_a_loss_is_believed_once_it_moves_evenly():
    assert [] == counted(Choice(), "step 10", "step 20")
    assert [10, 20, 30, 40] == counted(Choice(), "step 10", "step 20", "step 30", "step 40")


@pytest.mark.parametrize(
    "line",
    [
        '{{"mode": "train", "epoch": 1, "iter": {0}, "lr": 0.001, "loss": 2.25}}',
        '{{"current_steps": {0}, "total_steps": 900, "loss": 0.5, "epoch": 0.1}}',
        '{{"step": {0}, "epoch": 1, "loss": 0.5}}',
        "{{'loss': 0.5, 'learning_rate': 1e-4, 'step': {0}}}",
    ],
)
def test_a_step_in_braces_counts_also_beside_an_epoch_or_a_rate(line):
    steps = [10, 20, 30, 40]

    assert steps == counted(Choice(), *(line.format(step) for step in steps))


def test_a_loss_on_a_line_of_its_own_goes_to_the_bar_beside_it(tmp_path, says):
    says(" 1%| | 1/100 [00:12<00:28,  2.46it/s]\r")
    says(" 2%| | 2/100 [00:12<00:28,  2.46it/s]\r")
    says("{'loss': '2.5', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.01'}\n")
    says(" 3%| | 3/100 [00:12<00:28,  2.46it/s]\r")

    assert 2.5 == [step.loss for step in steps(tmp_path)][-1]
    assert loss_alone("{'eval_loss': 2.5, 'epoch': 1.0}") is None
    assert loss_alone("{'train_runtime': 9.5, 'train_loss': 2.5, 'epoch': 1.0}") is None


BAR = " {0}%| | {0}/100 [00:12<00:28,  2.46it/s]"
ALONE = "{{'loss': '{}', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.01'}}"


def losses(tmp_path: Path) -> dict[int, float]:
    """By the number that the bar showed when the step was done."""
    return {one.step + 1: one.loss for one in steps(tmp_path) if not math.isnan(one.loss)}


def trainer(step: int, loss: float | None, *, drawn: bool = True) -> str:
    """What its callback writes: the bar unless it was drawn right before, the loss, the bar."""
    told = "" if loss is None else f"\r{ALONE.format(loss)}\n{BAR.format(step)}"
    return (f"\r{BAR.format(step)}" if drawn else "") + told


@pytest.mark.parametrize("drawn", [True, False])
def test_a_loss_of_its_own_belongs_to_the_step_whose_bar_is_drawn_again_after_it(
    tmp_path, says, drawn
):
    says(f"\r{BAR.format(0)}")
    for step, loss in enumerate((2.5, None, 2.25, 2.0, None), start=1):
        says(trainer(step, loss, drawn=drawn or loss is None) + "\n")

    assert {1: 2.5, 3: 2.25, 4: 2.0} == losses(tmp_path)
    assert 5 == len(steps(tmp_path))


def test_a_loss_that_comes_after_its_step_was_recorded_is_nobody_s(tmp_path, says):
    for step in range(4):
        says(f"\r{BAR.format(step)}\n")
        says(f"{ALONE.format(step)}\n{BAR.format(step)}\n")

    assert {} == losses(tmp_path)
    assert 3 == len(steps(tmp_path))


def test_of_losses_that_come_together_nobody_knows_the_steps(tmp_path, says):
    for step in range(4):
        says(f"\r{BAR.format(step)}\n")
    says(f"{ALONE.format(3.0)}\n{ALONE.format(2.0)}\n{BAR.format(4)}\n{BAR.format(5)}\n")

    assert {} == losses(tmp_path)


def test_a_bar_of_an_evaluation_is_not_the_one_that_trains():
    train = " 30%|███       | {}/100 [00:12<00:28,  2.46it/s]"
    check = " 30%|███       | {}/8 [00:12<00:28,  2.46it/s]"
    lines = [train.format(n) for n in (1, 2, 3)] + [check.format(n) for n in range(9)]

    assert [1, 2, 3, 4, 5] == counted(Choice(), *lines, train.format(4), train.format(5))


def test_a_loop_that_is_over_gives_way_to_the_next_one():
    lines = [f"|{number}/3 [00:01<00:01, 20it/s]" for number in range(4)]
    lines += [f"|{number}/90 [00:01<00:01, 20it/s]" for number in range(7)]

    assert [0, 1, 2, 3, 3, 4, 5, 6] == counted(Choice(), *lines)


def test_a_checkpoint_that_is_loaded_again_is_no_step(tmp_path, says):
    for number in (500, 510, 520, 400, 410, 420):
        says(f" iteration {number}/ 1000 | lm loss: 2.5E+00 |\n")

    assert 40 == len(steps(tmp_path))


def test_several_ranks_that_write_into_one_log_are_counted_once(tmp_path, says):
    for number in (9, 10, 9, 10, 11, 10, 10, 11, 12, 11, 13, 12, 12, 13):
        says(f"[rank{number % 2}] iteration {number}/ 1000 | lm loss: 2.5E+00 |\n")

    assert 4 == len(steps(tmp_path))


def test_what_an_epoch_leaves_untold_at_its_end_is_counted(tmp_path, says):
    for epoch, number in ((1, 50), (1, 100), (2, 50)):
        says(f"INFO - Epoch [{epoch}][{number}/117]\tlr: 0.1, loss: 0.5\n")

    assert 50 + 17 + 50 == len(steps(tmp_path))


@pytest.mark.parametrize("name", ["training_logs", "training_steps"])
def test_what_a_log_suffers_on_its_way_changes_no_value(name):
    assert [] == mutated_captures.wrong(mutated_captures.PARSERS[name], 300)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step 1,2000",
        "step 1.172,13 loss 0.5",
        "time (ms) | forward: 652.41 | backward: 2164.52 | backward_inner: 2001.89 | step: 1172.13",
        "rank=0 time (ms) | forward: 652 | step: 1172",
        "time (ms) | forward_microstep: 652.42 | step_microstep: 1172.13",
        "step: 1172 ms",
        "step 12:30:05",
        "iteration: 100%",
        "micro_step=34",
        "global batch size:    64 | loss: 2.5",
        "{'loss': '2.345', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.01'}",
        "loading 12/40 shards",
        "steps: 1000",
        "stepping stone 3",
        "{'loss': 0.5, 'epoch': 1.0}",
        "Map: 10/500 [00:01<00:30, 9.9 examples/s]",
        "Map (num_proc=4):   2%|▏         | 10/500 [00:01<00:30, 9.9 examples/s]",
        "Downloading: 45/100 [00:01<00:01, 9.9MB/s]",
        "Generating train split: 10/500 [00:01<00:30, 9.9 examples/s]",
        "Loading checkpoint shards:  43%|████▎     | 3/7 [00:01<00:02,  2.1it/s]",
        "Fetching 7 files:  43%|████▎     | 3/7 [00:01<00:02,  2.1it/s]",
        "Validation 3/10 [00:01<00:02, 2.1it/s]",
        "Validation DataLoader 0:  30%|███       | 3/10 [00:01<00:02, 2.1it/s]",
        "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:01<00:01, 2.1it/s]",
        "archive: 1.5/7 [00:01<00:02]",
        "validation step 3, loss 0.5",
    ],
)
def test_other_lines_say_nothing(line):
    assert said(line) is None


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step 1,200 loss 0.5", 1200),
        ("iteration 1_200: loss 0.5", 1200),
        ("Epoch 1: 12%|█▏| 1,234,567/9,999,999 [00:02<00:00]", 1_234_567),
        ("step 12,loss 0.5", 12),
    ],
)
def test_thousands_may_be_separated(line, step):
    assert step == said(line).step


def test_a_number_that_does_not_rise_takes_no_form():
    choice = Choice()
    bar = "|1/1 [00:00<00:00, 9.9it/s]"

    assert [] == counted(choice, bar, bar)
    assert [10, 20, 30] == counted(choice, "step 10", "step 20", "step 30")


def test_the_form_that_rose_first_is_kept():
    bar = "|{}/40 [00:02<00:00, 19.51it/s, loss=0.5]"
    lines = (bar.format(1), bar.format(2), "warming up, step 5000", "step 5001", bar.format(3))

    assert [1, 2, 3] == counted(Choice(), *lines)


def test_a_form_that_tells_a_loss_replaces_one_that_does_not():
    bar = "|{}/9 [00:02<00:00, 19.51it/s]"
    lines = (bar.format(1), bar.format(2), "step 1 loss 3.0", "step 2 loss 2.0", "step 3 loss 1.0")

    assert [1, 2, 2, 3] == counted(Choice(), *lines, bar.format(3))


def test_after_another_form_the_count_begins_where_it_is(tmp_path, says):
    for number in (1, 2, 3):
        says(f"|{number}/3 [00:01<00:01, 20it/s]\n")
    for number in (100, 101, 102):
        says(f"step {number} loss 0.5\n")

    assert [1, 2, 3] == [step.step for step in steps(tmp_path)]
    assert {1_000_000_000} == {step.wall_ns for step in steps(tmp_path)}


def test_the_time_before_a_bar_moves_counts_from_where_it_was_first_drawn(tmp_path, says):
    for number in (0, 0, 0, 1):
        says(f"|{number}/40 [00:01<00:01, 20it/s]\r")

    assert [3_000_000_000] == [step.wall_ns for step in steps(tmp_path)]


def test_an_expression_of_the_user_goes_alone_and_at_once():
    choice = Choice(r"done (?P<step>[\d,]+) of")

    assert [1003] == counted(choice, "done 1,003 of 9,000", LINES["Megatron-LM"][0])


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [("(", "is not a regular expression"), (r"step (\d+)", "no group named step")],
)
def test_an_expression_that_cannot_find_steps_is_refused(expression, sentence):
    with pytest.raises(PatternError, match=sentence):
        compiled(expression)


@given(st.text(max_size=200))
def test_no_line_breaks_the_forms(line):
    found = said(line)

    assert found is None or found.step >= 0


def test_the_time_between_lines_is_divided_among_the_steps_between(tmp_path, says):
    says("step 10 loss 3.0\n")
    says("step 20 loss 2.0\n", seconds=5.0)
    recorded = steps(tmp_path)

    assert list(range(10, 20)) == [step.step for step in recorded]
    assert {500_000_000} == {step.wall_ns for step in recorded}
    assert 2.0 == recorded[-1].loss
    assert all(math.isnan(step.loss) for step in recorded[:-1])


def test_half_a_line_waits_for_its_other_half(tmp_path, says):
    says("step 1 loss 1.0\nstep 2 lo")
    assert [] == list(tmp_path.glob("*.ring"))
    says("ss 0.5\n")

    assert [0.5] == [step.loss for step in steps(tmp_path)]


def test_a_bar_that_is_drawn_again_is_no_step_and_an_epoch_begins_anew(tmp_path, says):
    bar = "|{}/40 [00:01<00:01, 20it/s]\r"
    for number in (39, 40, 40, 0, 1, 2):
        says(bar.format(number))

    assert [39, 40, 41] == [step.step for step in steps(tmp_path)]


def test_a_number_that_leaps_is_not_taken_for_steps(tmp_path, says):
    says("step 1\n")
    says(f"step {2 + MOST_STEPS}\n")

    assert [] == list(tmp_path.glob("*.ring"))


def test_a_program_that_records_itself_is_left_alone(tmp_path, environment, says):
    writer = started(environment, Means.SDK)
    for number in range(3):
        says(f"step {number}\n")

    assert Means.SDK == holder(writer.path).means
    assert 0 == holder(writer.path).steps


def test_torch_s_optimizer_takes_over_from_the_log(tmp_path, environment, says):
    for number in range(3):
        says(f"step {number}\n")
    writer = started(environment, Means.OPTIMIZER)
    says("step 3\n")

    assert Means.OPTIMIZER == holder(writer.path).means
    assert 0 == holder(writer.path).steps


def test_a_process_that_only_imports_torch_leaves_the_ring_to_who_has_it(environment):
    started(environment, Means.LOG)

    with pytest.raises(UnwritableError):
        started(environment, Means.OPTIMIZER, trains=False)


def test_ranks_find_torchrun_s_environment_and_the_user_s_own_is_kept():
    base = {"PYTHONPATH": "/mine", "OMP_NUM_THREADS": "4", "RANK": "9", "HOME": "/root"}
    told = environment_of(
        base, run="exec-1", layout=Layout(2, 2, 4), rank=3, workspace=Path("/w"), port=4000
    )

    assert ("3", "4", "1", "2") == tuple(
        told[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    )
    assert ("127.0.0.1", "4000") == (told["MASTER_ADDR"], told["MASTER_PORT"])
    assert ("/w/node-1", "exec-1", "node-1") == tuple(
        told[name] for name in ("LOCKSTEP_DIR", "LOCKSTEP_RUN", "LOCKSTEP_NODE")
    )
    assert f"{HOOK}:/mine" == told["PYTHONPATH"]
    assert ("4", "/root") == (told["OMP_NUM_THREADS"], told["HOME"])


def python(tmp_path: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    return subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, "PYTHONPATH": str(HOOK), **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_outside_of_a_run_the_hook_leaves_no_trace(tmp_path):
    program = "import sys; print(sys.meta_path[0], [p for p in sys.path if 'exec/hook' in p])"
    told = python(tmp_path, program)

    assert "AfterTorch" not in told.stdout
    assert told.stdout.endswith("[]\n")


def test_the_program_s_own_sitecustomize_is_imported_too(tmp_path, environment):
    own = tmp_path / "site"
    own.mkdir()
    (own / "sitecustomize.py").write_text("MINE = 1")
    program = "import sitecustomize; print(sitecustomize.MINE)"

    told = python(tmp_path, program, PYTHONPATH=f"{HOOK}:{own}", **environment)
    assert "1\n" == told.stdout


def test_a_torch_that_cannot_be_watched_is_one_line_and_the_program_goes_on(tmp_path, environment):
    (tmp_path / "torch.py").write_text("VERSION = 1")
    told = python(tmp_path, "import torch; print(torch.VERSION)", **environment)

    assert ("1\n", 0) == (told.stdout, told.returncode)
    assert 1 == len(told.stderr.splitlines())
    assert "the steps of torch's optimizers are not seen" in told.stderr


PLAIN = """
import importlib.util, sys, warnings
warnings.simplefilter("error")
importlib.util.find_spec("torch")
import torch
import collector
assert collector.MINE == 1
assert not [name for name in sys.modules if name.startswith("lockstep")]
weights = torch.ones(2, requires_grad=True)
other = torch.ones(2, requires_grad=True)
optimizer, second = torch.optim.SGD([weights], lr=0.1), torch.optim.SGD([other], lr=0.1)
for _ in range(7):
    (weights.sum() + other.sum()).backward()
    optimizer.step()
    second.step()
print("trained")
"""


@pytest.mark.slow
def test_each_step_of_torch_s_first_optimizer_is_a_step(tmp_path, environment):
    rings = tmp_path / "rings"
    (tmp_path / "collector.py").write_text("MINE = 1")
    told = python(tmp_path, PLAIN, **environment | {"LOCKSTEP_DIR": str(rings)})

    assert ("trained\n", "") == (told.stdout, told.stderr)
    assert list(range(7)) == [step.step for step in steps(rings)]
    assert Means.OPTIMIZER == holder(rings / "rank-0.ring").means


SELF_RECORDING = """
import torch, lockstep
weights = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in lockstep.recorder().steps(range(5)):
    weights.sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_program_that_tells_its_steps_itself_is_not_counted_twice(tmp_path, environment):
    told = python(tmp_path, SELF_RECORDING, **environment)
    known = holder(tmp_path / "rank-0.ring")

    assert ("", 0) == (told.stderr, told.returncode)
    assert (Means.SDK, 5) == (known.means, known.steps)
