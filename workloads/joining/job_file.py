"""What every rank of a run is told when somebody else starts it: one JSON object, no pickle."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lockstep.collector.contract import bounded_json
from lockstep.workloads.joining.from_json import ShapeError, built
from lockstep.workloads.spec import RunSpec

MAX_BYTES = 1 << 20


class JobError(ValueError):
    """The job of a rank cannot be read; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run, the same for all of its ranks.

    Attributes:
        output: The run's archive; logs, checkpoints and results go there, on each host.
        hosts: On how many hosts the ranks must be; None = as many as their starter says.
        nodes: Names of the hosts in the order of ranks; empty = what they call themselves.
            Ranks of one host are on emulated nodes instead.
        directory: Where the rings go, made and removed by the launcher; None = `run` under
            LOCKSTEP_DIR, made by the first rank of a host and removed by the last.
        rendezvous: Where the ranks meet if nothing else says it, as torch's `init_method`.
        data: What the task prepared; None = each host prepares it for itself.
        peak_flops: FLOP/s of one core in matrix products; None = not measured.
    """

    spec: RunSpec
    output: Path
    hosts: int | None = None
    nodes: tuple[str, ...] = ()
    directory: Path | None = None
    rendezvous: str | None = None
    data: Path | None = None
    peak_flops: float | None = None

    def __post_init__(self) -> None:
        layout = self.spec.layout
        if self.hosts not in (None, 1, layout.nodes):
            raise ValueError(
                f"hosts is {self.hosts} and the layout has {layout.nodes} nodes; it must be as"
                " many, or 1 for emulated nodes"
            )
        if self.nodes and len(self.nodes) != layout.nodes:
            raise ValueError(f"there are {len(self.nodes)} names for {layout.nodes} nodes")

    def text(self) -> str:
        """The job as one line of JSON, its faults included: nothing but ranks may read it."""
        return json.dumps(asdict(self), default=str)

    def write(self, path: Path) -> None:
        """Write the job.

        Raises:
            OSError: It cannot be written.
        """
        path.write_text(self.text() + "\n")


def read(words: str) -> Job:
    """A job from its JSON text, or from the file of that name.

    Hosts that share no file system are given the text itself.

    Raises:
        JobError: There is none, or it is broken.
    """
    if words.lstrip().startswith("{"):
        return _parsed(words, "the job")
    try:
        with open(words, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JobError(f"the job {words} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise JobError(f"the job {words} is larger than {MAX_BYTES} bytes")
    return _parsed(content.decode(errors="replace"), f"the job {words}")


def _parsed(text: str, name: str) -> Job:
    try:
        return built(Job, bounded_json.loads(text), name)
    except json.JSONDecodeError as error:
        raise JobError(f"{name} is not JSON: {error.msg} in line {error.lineno}") from None
    except bounded_json.BoundError as error:
        raise JobError(f"{name} is no job: {error}") from None
    except ShapeError as error:
        raise JobError(str(error)) from None
