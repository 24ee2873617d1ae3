"""A run as JSON and back: what a rank reads is what the launcher wrote, or a sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.disturbances import parse_disturbance
from lockstep.workloads.faults.plan import Fault, parse
from lockstep.workloads.launch.joining.job_file import Job, JobError, read
from lockstep.workloads.spec import Layout, RunSpec, Training

FAULT = Fault(FaultKind.COMPUTE, 1, None, 1.5, 20, 40, "constant", "compute:rank=1", ("a", "b"))
SLOW_LINK = parse(
    "link-delay:node=1,factor=1.5", nodes=2, ranks_per_node=2, steps=60,
    available=dict.fromkeys(FaultKind, ""),
)  # fmt: skip
HEAVY = parse_disturbance("checkpoint", dp=2, pp=2, steps=60, pace=True)
SPEC = RunSpec(
    "gpt-1", "gpt", Layout(2, 2, 2, 1, 2), 60, 7, Training(vocabulary=64, resume="/x"),
    (FAULT, SLOW_LINK), (HEAVY,),
)  # fmt: skip
JOB = Job(
    SPEC, Path("/runs/one"), 2, ("a", "b"), Path("/dev/shm/x"), "file:///x", Path("/data"), 1.5e9
)


def test_a_rank_reads_what_the_launcher_wrote(tmp_path: Path) -> None:
    JOB.write(tmp_path / "job.json")

    assert JOB == read(str(tmp_path / "job.json"))
    assert JOB == read(JOB.text())


@given(
    st.integers(1, 50), st.floats(0.0, 0.5), st.sampled_from([None, 1.25, 10.0]), st.booleans(),
    st.text(max_size=20),
)  # fmt: skip
def test_every_setting_survives(
    steps: int, noise: float, factor: float | None, pace: bool, data: str
) -> None:
    spec = replace(
        SPEC, steps=steps, device_noise=noise, pace=pace, training=Training(data=data),
        faults=(replace(FAULT, factor=factor),),
    )  # fmt: skip

    assert spec == read(replace(JOB, spec=spec).text()).spec


def test_what_is_left_out_takes_its_default() -> None:
    layout = {"nodes": 1, "ranks_per_node": 2, "dp": 2}
    spec = {"run": "r", "workload": "gpt", "layout": layout, "steps": 10, "seed": 0}

    job = read(json.dumps({"spec": spec, "output": "/o"}))

    assert Job(RunSpec("r", "gpt", Layout(1, 2, 2), 10, 0), Path("/o")) == job


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(JOB.text()) | changes)


def spec_with(**changes: Any) -> str:
    return changed(spec=json.loads(JOB.text())["spec"] | changes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "the job is not JSON: "),
        ("{}", "the job lacks 'spec'"),
        (changed(host=2), "the job has the unknown name 'host'; one of spec, output, hosts,"),
        (spec_with(steps="60"), "the job.spec.steps is '60'; it must be of type int"),
        (spec_with(pace=1), "the job.spec.pace is 1; it must be of type bool"),
        (spec_with(layout=[]), "the job.spec.layout is []; it must be an object"),
        (spec_with(faults={}), "the job.spec.faults is {}; it must be a list"),
        (
            spec_with(layout={"nodes": 2, "ranks_per_node": 2, "dp": 3}),
            "the job.spec.layout: dp 3 x tp 1 x pp 1 = 3 does not match",
        ),
        (changed(hosts=3), "the job: hosts is 3 and the layout has 2 nodes"),
        (changed(nodes=["a"]), "the job: there are 1 names for 2 nodes"),
        ("[" * 100_000, "the job [["),
    ],
)
def test_a_broken_job_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(JobError) as refused:
        read(text)

    assert str(refused.value).startswith(sentence)


def test_a_fault_of_an_unknown_kind_is_refused_with_the_kinds() -> None:
    fault = json.loads(JOB.text())["spec"]["faults"][0] | {"kind": "magic"}

    with pytest.raises(JobError, match=r"the job\.spec\.faults\[0\]\.kind is 'magic'; one of "):
        read(spec_with(faults=[fault]))


def test_a_job_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"the job .*none cannot be read: No such file"):
        read(str(tmp_path / "none"))


@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["spec", "output", "layout", "x"]), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict)))  # fmt: skip
def test_no_json_makes_anything_but_a_sentence(value: object) -> None:
    with pytest.raises(JobError):
        read(json.dumps(value))
