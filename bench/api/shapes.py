"""What is sent and answered, as OpenAPI tells it: docs/reference/api.md is made of these."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lockstep.workloads.spec import MAX_LOCAL_RANKS

NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"
NAMING = "small letters, digits and hyphens, 40 at most, beginning with a letter or a digit"
METRIC = r"^[A-Za-z_][A-Za-z0-9_.:@/-]{0,127}$"
MOST_FAULTS = 8
MOST_SAMPLES = 10_000
LATEST = 32503680000.0
"""Unix seconds of the year 3000."""

State = Literal[
    "queued", "running", "stopping", "analyzing", "reporting", "ended", "failed", "hung", "stopped",
    "unknown",
]  # fmt: skip


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not an error of ours
    """Ends a request: a status, a word for programs and a sentence for people.

    Attributes:
        status: 4xx.
        error: A word that does not change, for programs.
        reason: What is wrong, with which thing, and what would be right.
        field: Which parameter or key of the body; empty = none.
    """

    def __init__(self, status: HTTPStatus, error: str, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.field = field

    def tree(self) -> dict[str, Any]:
        """Its JSON."""
        return {"error": self.error, "reason": self.reason, "field": self.field or None}


def bad_value(field: str, reason: str) -> Refusal:
    """Something that was sent is not what it must be."""
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "bad_value", reason, field)


def absent(error: str, reason: str) -> Refusal:
    """There is no such thing."""
    return Refusal(HTTPStatus.NOT_FOUND, error, reason)


def conflict(error: str, reason: str) -> Refusal:
    """Not now, or not with what there is."""
    return Refusal(HTTPStatus.CONFLICT, error, reason)


class Asked(BaseModel):
    """What a body must be: of these types exactly, without other keys."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StartRun(Asked):
    """Settings of a run, in the words of `lockstep run`."""

    name: Annotated[str | None, Field(pattern=NAME, description=f"Its id: {NAMING}; null = one is"
                                      " chosen.")] = None  # fmt: skip
    workload: Annotated[str, Field(description="gpt, resnet, logreg or allreduce.")] = "gpt"
    nodes: Annotated[int, Field(description="Emulated nodes.")] = 4
    ranks_per_node: Annotated[int, Field(description=f"Ranks of a node; {MAX_LOCAL_RANKS} ranks at"
                                         " most in all.")] = 1  # fmt: skip
    dp: Annotated[int | None, Field(description="Data-parallel size; null = what is left.")] = None
    tp: Annotated[int, Field(description="Tensor-parallel size.")] = 1
    pp: Annotated[int, Field(description="Pipeline stages.")] = 1
    steps: Annotated[int, Field(description="Optimizer steps.")] = 150
    model: Annotated[str | None, Field(description="null = the workload's own.")] = None
    seed: int = 0
    faults: Annotated[list[str], Field(max_length=MOST_FAULTS, description="Each a SPEC"
        " of `--fault`, as thermal:rank=2,factor=1.5.")] = []  # fmt: skip
    analyze: Annotated[bool, Field(description="Whether verdict and report follow.")] = True
    time_limit_seconds: Annotated[int, Field(ge=1, le=604_800, description="A run that is not over"
        " so long after its begin is stopped, and failed.")] = 3600  # fmt: skip
    wait_limit_seconds: Annotated[int, Field(ge=1, le=604_800, description="A run that has not"
        " begun so long after it was asked for is given up, and failed.")] = 3600  # fmt: skip


class PostedSample(Asked):
    """One number of a program."""

    metric: Annotated[str, Field(pattern=METRIC, description="Letters, digits and _.:@/-, 128 at"
                                 " most.")]  # fmt: skip
    value: Annotated[float, Field(description="A finite number.")]
    time: Annotated[float | None, Field(ge=0, lt=LATEST, description="Unix seconds; null ="
                                        " now.")] = None  # fmt: skip
    rank: Annotated[int | None, Field(ge=0, lt=2**31)] = None
    node: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,252}$")] = None


class PostMetrics(Asked):
    """Samples; all of them are taken, or none."""

    samples: Annotated[list[PostedSample], Field(min_length=1, max_length=MOST_SAMPLES)]


class Taken(BaseModel):
    """How many samples were taken: all that were sent."""

    taken: int


class Refused(BaseModel):
    """Why a request was refused."""

    error: Annotated[str, Field(description="A word that does not change.")]
    reason: Annotated[str, Field(description="One sentence.")]
    field: Annotated[str | None, Field(description="Parameter or key that it is about.")]


class RunInfo(BaseModel):
    """A run."""

    run: Annotated[str, Field(description="Its id.")]
    state: State
    workload: str
    nodes: int
    ranks: int
    layout: Annotated[str, Field(description="As dp=4 pp=1 tp=1; empty = unknown.")]
    started: Annotated[str | None, Field(description="ISO 8601, UTC; null = not begun.")]
    ended: Annotated[str | None, Field(description="ISO 8601, UTC; null = not over, or unknown.")]
    status: Annotated[str | None, Field(description="Of its verdict: healthy, degraded or unknown;"
                                        " null = it was not analyzed.")]  # fmt: skip
    sentence: Annotated[str | None, Field(description="Of its verdict.")]
    slowdown: Annotated[float | None, Field(description="Step time over ideal.")]
    lost_gpu_hours: float | None
    culprits: Annotated[int, Field(description="How many the verdict names.")]
    provenance: Annotated[list[str], Field(description="What was emulated or simulated.")]
    behind: Annotated[str | None, Field(description="Of one that is queued: which run is before"
                                        " it.")]  # fmt: skip
    command: Annotated[str | None, Field(description="The same on the command line, secrets masked;"
                                         " null = unknown.")]  # fmt: skip
    name: Annotated[str | None, Field(description="As `lockstep run --name` gave it; the id begins"
                                      " with it. null = none.")]  # fmt: skip


class Failure(BaseModel):
    """Who ended a run that failed, hung or was stopped, and what was said last."""

    reason: str
    ranks: list[int]
    nodes: list[str]
    pods: list[str]
    last_lines: Annotated[list[str], Field(description="Of the log of the first of these ranks, or"
                                           " of the run.")]  # fmt: skip


class RunDetail(RunInfo):
    """A run, and how it failed."""

    failure: Annotated[Failure | None, Field(description="null = it did not fail.")]


class Runs(BaseModel):
    """Runs, the newest first."""

    runs: list[RunInfo]


class Log(BaseModel):
    """The last lines of a run's log."""

    run: str
    lines: list[str]


class Capacity(BaseModel):
    """What this machine runs."""

    ranks: Annotated[int, Field(description="Of one run, at most.")]
    runs: Annotated[int, Field(description="At a time.")]
    queue: Annotated[int, Field(description="Runs that may wait.")]
    running: Annotated[str | None, Field(description="Which run goes on.")]
    waiting: Annotated[list[str], Field(description="Those behind it, in order.")]
    workloads: list[str]
    refused_faults: Annotated[dict[str, str], Field(description="Kinds of fault that this machine"
                                                    " cannot inject, and why.")]  # fmt: skip


class SeriesInfo(BaseModel):
    """Whom a series is about."""

    metric: str
    node: str | None
    gpu: int | None
    rank: int | None
    labels: Annotated[str, Field(description='Others, as name="value" joined by commas.')]


class SeriesName(SeriesInfo):
    """A series without its samples."""

    samples: int
    first: Annotated[float, Field(description="Unix seconds.")]
    last: Annotated[float, Field(description="Unix seconds.")]


class SeriesNames(BaseModel):
    """The series of a run."""

    run: str
    series: list[SeriesName]


class Point(BaseModel):
    """A sample; with `summarize`, a window of samples: `value` is their mean, `time` their last."""

    time: Annotated[float, Field(description="Unix seconds.")]
    value: Annotated[float | None, Field(description="null = no number.")]
    step: Annotated[int | None, Field(description="Optimizer step; null = not reported.")] = None
    begin: Annotated[float | None, Field(alias="from", description="First sample of a window.")] = (
        None
    )
    end: Annotated[float | None, Field(alias="to", description="Last sample of a window.")] = None
    count: Annotated[int | None, Field(description="Samples in a window.")] = None
    min: float | None = None
    max: float | None = None
    last: float | None = None


class Series(SeriesInfo):
    """A series."""

    points: list[Point]


class Metrics(BaseModel):
    """Series of a run."""

    run: str
    series: list[Series]


class FindingInfo(BaseModel):
    """What is wrong, where, and since when."""

    finding: Annotated[str, Field(description="Its id.")]
    tier: Annotated[str, Field(description="page or record.")]
    open: bool
    run: str
    node: str | None
    gpu: int | None
    rank: int | None
    link: str | None
    cause: str
    confidence: Annotated[float | None, Field(description="That the cause is right, 0 to 1.")]
    place_confidence: Annotated[float | None, Field(description="That the place is.")]
    slowdown: float | None
    since: Annotated[str | None, Field(description="ISO 8601, UTC.")]
    until: Annotated[str | None, Field(description="null = it goes on, or is unknown.")]
    sentence: str


class Findings(BaseModel):
    """Findings, the newest first."""

    findings: list[FindingInfo]


class BenchResults(BaseModel):
    """Rows of `lockstep bench`: a key for every column of its table."""

    results: list[dict[str, Any]]
