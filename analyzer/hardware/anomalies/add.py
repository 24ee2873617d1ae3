"""What the hardware adds to the verdict about a run."""

from dataclasses import replace

from lockstep.analyzer.hardware.anomalies import judge
from lockstep.analyzer.hardware.anomalies.to_verdict import anomalies_json
from lockstep.analyzer.hardware.anomalies.uninstrumented import uninstrumented
from lockstep.analyzer.read.jobs import jobs
from lockstep.analyzer.shapes.run import Run, Verdict


def with_hardware(verdict: Verdict, run: Run) -> Verdict:
    """The verdict with the hardware that deviates.

    Of a run that told no step times the hardware alone may say who holds it back; who it does not
    name stays unnamed, in the words of the verdict given.
    """
    if run.windows.empty:
        job = [(info.node, info.gpu) for info in run.ranks if info.gpu is not None]
        every = list(jobs(run.samples).values()) if not run.ranks else []
        job = list(every[0]) if len(every) == 1 else job
        alone = uninstrumented(run.name, run.samples, job, run.ranks) if job else None
        if alone is not None and alone.culprits:
            missing = dict.fromkeys((*verdict.missing, *alone.missing))
            provenance = tuple(dict.fromkeys((*verdict.provenance, *alone.provenance)))
            words = f"{alone.sentence.removesuffix('.')} ({', '.join(provenance)})."
            return replace(
                alone,
                sentence=words if provenance else alone.sentence,
                missing=tuple(missing),
                provenance=provenance,
            )
    judged = judge(run.samples, run.ranks)
    told = anomalies_json(judged.found, run.ranks, verdict.culprits)
    return replace(verdict, anomalies=told, missing=(*verdict.missing, *judged.missing))
