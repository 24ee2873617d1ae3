"""Jobs without a run: the GPUs that belong together, by the allocation that nodes report.

Such a job has no rank that reports itself; who holds a GPU is all that is known of it (kubelet's
pod-resources, Slurm, or the processes on it).
"""

import re
from collections.abc import Mapping

import pandas as pd

from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.windows import as_texts
from lockstep.collector.contract.metrics import GPU_ALLOCATION_INFO

INDEX = re.compile(r"-\d+$")
"""The pods of one job end in their number: MPI Operator, Kubeflow's jobs, StatefulSets."""


def jobs(samples: pd.DataFrame) -> Mapping[str, tuple[tuple[str, int], ...]]:
    """Job -> its (node, gpu), both sorted; empty where nobody reports allocation.

    A job is a Slurm job, or the pods of a namespace that differ in their last number alone. A GPU
    that several jobs held one after the other belongs to the last; one that is shared at the same
    time, to none: who of them works on it is not known.
    """
    rows = as_texts(
        samples[
            (samples["metric"] == GPU_ALLOCATION_INFO.name)
            & samples["gpu"].notna()
            & (samples["value"] > 0)
        ]
    )
    told = rows.assign(job=rows["labels"].fillna("").map(_job))
    told = told[told["job"] != ""]
    last = told.groupby(["node", "gpu"])["time"].transform("max")
    now = told[told["time"] == last].drop_duplicates(["node", "gpu", "job"])
    shared = now.duplicated(["node", "gpu"], keep=False)
    members: dict[str, list[tuple[str, int]]] = {}
    for node, gpu, job in zip(
        *(now[~shared][name] for name in ("node", "gpu", "job")), strict=True
    ):
        members.setdefault(str(job), []).append((str(node), int(gpu)))
    return {job: tuple(sorted(members[job])) for job in sorted(members)}


def _job(text: str) -> str:
    labels = parsed(text)
    if labels.get("slurm_job"):
        return f"slurm-{labels['slurm_job']}"
    pod = labels.get("pod", "")
    return f"{labels.get('namespace', '')}/{INDEX.sub('', pod)}" if pod else ""
