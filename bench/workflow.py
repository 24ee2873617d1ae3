"""A whole benchmark as one Argo Workflow: a step a cell, one after the other, and Argo runs them.

Each step is `lockstep bench run FILE --cell NAME` beside the claim: it puts the cell's run onto the
cluster, has it measured there, and adds the row to the table on the claim. A cell that fails does
not end the others; the same Workflow created again goes on with those that have not finished.

Fields: https://argo-workflows.readthedocs.io/en/latest/fields/.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

from lockstep.bench.plan import CLUSTER, Cell
from lockstep.bench.spec import Bench, BenchError
from lockstep.collector.contract.kubernetes import RUNS_ACCOUNT
from lockstep.runs.cluster_options import DEFAULT_START_TIMEOUT

SPEC_FILE = "/bench/spec.toml"
RUNS_FOLDER = "/runs"
FOLDER = f"{RUNS_FOLDER}/benches"
"""On the claim."""
ALL, CELL = "all", "cell"
GRACE_SECONDS = 60
"""For the orderly end of a cell's run, when the Workflow is stopped."""
MORE_SECONDS = 3600.0
"""Of a cell beyond its queue, its start and its run: the measuring, the clean-up."""
Manifest = dict[str, Any]


def workflow(
    bench: Bench, cells: Sequence[Cell], text: str, image: str, namespace: str, claim: str
) -> Manifest:
    """The Workflow.

    Args:
        text: Of the benchmark's file, which goes with it.
        image: Of the steps: it has the extras `workloads` and `kubernetes`, as that of the runs.

    Raises:
        BenchError: Its cells are no runs on a cluster, or a step of the file is no command.
    """
    if bench.launcher not in CLUSTER:
        raise BenchError(
            f"[bench] launcher is {bench.launcher}, and a Workflow's cells need"
            f" {' or '.join(CLUSTER)}"
        )
    if not image:
        raise BenchError(
            "no image is named: give [bench] options image, [matrix] images or --image"
        )
    if containers := [task.name for task in bench.tasks if task.container is not None]:
        raise BenchError(
            f"step {containers[0]} is a container, which no pod can start inside of itself; give a"
            f" command that {image} has"
        )
    if "{{" in text:
        raise BenchError(
            "the file has {{, which Argo takes for a variable of its own and refuses; put what"
            " needs it into a script in the image"
        )
    once = cells[: len({cell.name for cell in cells})]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "generateName": f"bench-{_label(bench.name)[:40]}-",
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "lockstep"},
        },
        "spec": {
            "entrypoint": ALL,
            "serviceAccountName": RUNS_ACCOUNT,
            "automountServiceAccountToken": True,
            "parallelism": 1,  # two cells at once would measure each other
            "podGC": {"strategy": "OnWorkflowSuccess"},
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "podSpecPatch": f'{{"terminationGracePeriodSeconds":{GRACE_SECONDS}}}',
            "volumes": [
                {"name": "runs", "persistentVolumeClaim": {"claimName": claim}},
            ],
            "templates": [
                {"name": ALL, "steps": [[_task(number, cell, repeat)]
                                        for repeat in range(bench.repeats)
                                        for number, cell in enumerate(once)]},
                _cell(bench, cells, text, image),
            ],
        },
    }  # fmt: skip


def _task(number: int, cell: Cell, repeat: int) -> Manifest:
    return {
        "name": f"cell-{number}-{repeat}",
        "template": CELL,
        "continueOn": {"failed": True, "error": True},
        "arguments": {"parameters": [
            {"name": "cell", "value": cell.name}, {"name": "repeat", "value": str(repeat)},
        ]},
    }  # fmt: skip


def _limit(bench: Bench, cells: Sequence[Cell]) -> Manifest:
    """How long the pod of a cell may be active on its node; none where a queue may last for ever.

    Each cell's launcher keeps the limits of its run, each from its own begin: this is for a pod
    that does not even do that.
    """
    told = [{**bench.options, **cell.settings} for cell in cells]
    if any(each.get("queue") and "queue-timeout" not in each for each in told):
        return {}
    queued, start = (
        max(_seconds(name, each.get(name, least)) for each in told)
        for name, least in (("queue-timeout", 0.0), ("start-timeout", DEFAULT_START_TIMEOUT))
    )
    # What measures the run is queued and started by itself.
    return {"activeDeadlineSeconds": round(2 * (queued + start) + bench.timeout + MORE_SECONDS)}


def _seconds(name: str, value: Any) -> float:
    """A limit of [bench] options or of a cell's settings."""
    with suppress(ValueError):
        if 0 <= (seconds := float(str(value))) < inf:
            return seconds
    raise BenchError(f"{name} is {value!r}; it must be a number of seconds, 0 or more")


def _cell(bench: Bench, cells: Sequence[Cell], text: str, image: str) -> Manifest:
    return {
        "name": CELL,
        **_limit(bench, cells),
        "inputs": {
            "parameters": [{"name": "cell"}, {"name": "repeat"}],
            "artifacts": [{"name": "spec", "path": SPEC_FILE, "raw": {"data": text}}],
        },
        "container": {
            "name": "main",
            "image": image,
            "command": [
                "lockstep", "bench", "run", SPEC_FILE, "--out", f"{FOLDER}/{bench.name}",
                "--cell", "{{inputs.parameters.cell}}",
                "--repeat", "{{inputs.parameters.repeat}}", "-o", "jsonl",
            ],
            "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - nobody else's
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"},
                          "limits": {"memory": "4Gi"}},
            "securityContext": {"allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "runs", "mountPath": RUNS_FOLDER}],
        },
    }  # fmt: skip


def _label(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
