"""What cannot be run is refused before anything starts, with the numbers and what would do."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lockstep.runs import archive, planning
from lockstep.runs.planning import named, plan, planned_program
from lockstep.terminal.output import CommandError
from lockstep.workloads.launch.launcher import Ending, Outcome, Raised
from lockstep.workloads.spec import RunSpec, Training
from lockstep.workloads.tasks import gpt

AUTO = Training(micro_batches=0)


def planned(dp: int = 1, tp: int = 1, pp: int = 1, **training: Any) -> RunSpec:
    return plan(
        "gpt", nodes=1, ranks_per_node=dp * tp * pp, dp=dp, tp=tp, pp=pp, steps=20, seed=0,
        faults=[], training=replace(AUTO, **training), token="0000",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"tp": 8}, "heads of keys and values 4 cannot be split over tp 8"),
        ({"tp": 2, "vocabulary": 77}, "--vocabulary 256"),
        ({"tp": 2, "sequence": 33, "sequence_parallel": True}, "sequence 33 cannot be split"),
        ({"pp": 4}, "4 pipeline stages (pp 4 x 1) are more than the 2 layers of tiny; give fewer"),
        ({"pp": 2, "micro_batches": 1}, "give --micro-batches 2 or more"),
        ({"pp": 2, "model": "small", "virtual_stages": 2, "micro_batches": 5},
         "5 micro-batches cannot be interleaved over pp 2"),
        ({"virtual_stages": 2}, "--virtual-stages needs a pipeline"),
        ({"model": "gpt3-175B"}, "did you mean gpt3-175b?"),
        ({"model": "gpt3-175b"}, "gpt3-175b with dp 1, tp 1, pp 1 does not fit: a rank has"),
        ({"micro_batch": 0}, "--micro-batch 0 is too few; at least 1"),
        ({"micro_batches": -1}, "--micro-batches -1 is too few; at least 0"),
        ({"virtual_stages": 0}, "--virtual-stages 0 is too few; at least 1"),
        ({"checkpoint_every": -5}, "--checkpoint-every -5 is too few; at least 0"),
        ({"learning_rate": float("nan")}, "--learning-rate nan must be above 0"),
        ({"vocabulary": 0}, "vocabulary is 0; it must be at least 1"),
        ({"data": "copy", "sequence": 15}, "sequence 15 is odd"),
        ({"tp": 0}, "is 0; it must be at least 1"),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be_is_refused_with_what_would_do(
    arguments: dict[str, Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpt, "memory_of_a_rank", lambda _layout: 4 * 2**30)
    with pytest.raises(CommandError) as refused:
        planned(**arguments)

    assert 64 == refused.value.code
    assert named in refused.value.sentence


def test_a_pipeline_gets_as_many_micro_batches_as_it_has_stages() -> None:
    assert 1 == planned(dp=2).training.micro_batches
    assert 2 == planned(pp=2).training.micro_batches
    assert 4 == planned(pp=2, model="small", virtual_stages=2).training.micro_batches


@pytest.mark.parametrize("data", ["nowhere/corpus", "markof"])
def test_a_dataset_that_is_not_there_is_bad_input(data: str) -> None:
    with pytest.raises(CommandError, match=f"--data: cannot read {data}.idx") as refused:
        planned(data=data)

    assert 65 == refused.value.code


@pytest.mark.parametrize(
    ("workload", "arguments", "named"),
    [
        ("gpt", {"goal": "accuracy>=0.5", "eval_every": 5}, "gpt has no accuracy; give a goal of"),
        ("gpt", {"goal": "loss<=2"}, "give --eval-every STEPS, too"),
        ("gpt", {"goal": "speed"}, "goal 'speed' is not understood"),
        ("gpt", {"stop_at_goal": True}, "--stop-at-goal needs a --goal"),
        ("gpt", {"time_budget": 5.0}, "give --eval-every, too"),
        ("gpt", {"time_budget": 0.0}, "--time-budget 0 must be above 0 seconds"),
        ("logreg", {"virtual_stages": 2}, "--virtual-stages is not for logreg, only for gpt"),
        ("resnet", {"model": "resnet21"}, "did you mean resnet"),
        ("allreduce", {"sizes": "8:1"}, "--sizes"),
    ],
)
def test_what_a_workload_cannot_do_is_refused(
    workload: str, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(CommandError) as refused:
        plan(
            workload, nodes=2, ranks_per_node=1, steps=20, seed=0, faults=[],
            training=planning.with_training_settings(workload, arguments), token="0000",
        )  # fmt: skip

    assert 64 == refused.value.code
    assert named in refused.value.sentence


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"disturbances": ["checkpoint"]}, "logreg writes no checkpoints"),
        ({"network": "none"}, "unknown network 'none'"),
        ({"hostfile": Path("hosts")}, "give --launcher mpirun, too"),
    ],
)
def test_what_cannot_be_combined_is_refused(more: dict[str, Any], named: str) -> None:
    with pytest.raises(CommandError) as refused:
        plan(
            "logreg", nodes=2, ranks_per_node=1, steps=20, seed=0, faults=[],
            training=planning.with_training_settings("logreg", {}), token="0000", **more,
        )  # fmt: skip

    assert 64 == refused.value.code
    assert named in refused.value.sentence


def own_program(*words: str) -> RunSpec:
    return planned_program(
        ("true", *words), None, nodes=1, ranks_per_node=2, hang_timeout=9.0, token="00ff"
    )


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("llama-7b", "llama-7b"),
        ("My run/№ 7: ../etc", "My-run-7-..-etc"),
        ("..hidden", "hidden"),
        ("a" * 200, "a" * 42),
        ("é" * 99 + "x", "x"),
    ],
)
def test_a_run_is_called_by_its_name_in_the_form_of_a_run_id(name: str, kept: str) -> None:
    spec = named(own_program(), name)

    assert kept == spec.name
    assert re.fullmatch(rf"{re.escape(kept)}-\d{{8}}T\d{{6}}-00ff", spec.run)
    assert len(spec.run) <= 63
    assert f"--name {kept} " in spec.command(faults=False, taken=())


def test_on_a_cluster_a_name_has_what_names_of_objects_have() -> None:
    spec = named(replace(own_program(), launcher="kubernetes"), "My_run.7" * 9)

    assert re.fullmatch(r"[a-z0-9-]{1,30}", spec.name)
    assert len(spec.run) <= 51


@pytest.mark.parametrize("name", ["", "/", "..", "é", "\n"])
def test_a_name_of_which_nothing_can_stand_in_a_run_id_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="has no letter and no digit"):
        named(own_program(), name)


def test_an_archive_has_the_name_and_the_command_and_no_secret(tmp_path: Path) -> None:
    words = (
        "--password",
        "Zq7",
        "--token=Zq7",
        "WANDB_API_KEY=Zq7",
        "https://u:Zq7@h/x",
        "--lr",
        "1",
    )
    spec = named(own_program(*words), "mine")
    outcome = Outcome(
        Ending.CRASH, (0,), "exited with code 1: no https://u:Zq7@h/x",
        raised=(Raised(0, "OSError: no https://u:Zq7@h/x"),),
    )  # fmt: skip
    now = datetime.now(UTC)
    for write in (
        lambda: archive.write_start(tmp_path, spec, now),
        lambda: archive.write_end(tmp_path, spec, now, outcome, archive.Recording()),
    ):
        write()
        text = "".join(each.read_text() for each in tmp_path.iterdir())
        told = json.loads((tmp_path / "run.json").read_text())

        assert "Zq7" not in text
        assert ("mine", spec.run) == (told["name"], told["run"])
        assert told["command"].endswith(
            "-- true --password '***' '--token=***' 'WANDB_API_KEY=***' 'https://***@h/x' --lr 1"
        )
