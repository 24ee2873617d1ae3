"""What every rank of a run is told when somebody else starts it: one JSON object, no pickle."""

import json
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from lockstep.collector.contract import bounded_json
from lockstep.workloads.spec import RunSpec

# Dataclasses from JSON, by their annotations; dataclasses.asdict is the inverse.

T = TypeVar("T")


class ShapeError(ValueError):
    """A JSON value does not have the shape that was asked for."""


def built(kind: type[T], value: object, where: str) -> T:
    """An instance of a dataclass from a JSON object; left-out fields take their defaults.

    Args:
        where: Name of the value, for the sentence about what is wrong with it.

    Raises:
        ShapeError: A name is unknown or missing, a value of another type, or refused by the
            dataclass itself.
    """
    if not isinstance(value, dict):
        raise ShapeError(f"{where} is {_shown(value)}; it must be an object")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type] # a dataclass
    for name in value:
        if name not in known:
            raise ShapeError(f"{where} has the unknown name {name!r}; one of {', '.join(known)}")
    for name, field in known.items():
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and name not in value:
            raise ShapeError(f"{where} lacks {name!r}")
    hints = get_type_hints(kind)
    given = {name: _value(hints[name], one, f"{where}.{name}") for name, one in value.items()}
    try:
        return kind(**given)
    except ShapeError:
        raise
    except ValueError as error:
        raise ShapeError(f"{where}: {error}") from None


def _value(kind: Any, value: object, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return built(kind, value, where)
    if get_origin(kind) in (Union, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        (kind,) = (member for member in get_args(kind) if member is not NoneType)
        return _value(kind, value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ShapeError(f"{where} is {_shown(value)}; it must be a list")
        return tuple(
            _value(get_args(kind)[0], one, f"{where}[{index}]") for index, one in enumerate(value)
        )
    return _scalar(kind, value, where)


def _scalar(kind: type, value: object, where: str) -> Any:
    if issubclass(kind, Enum):
        known = [member.value for member in kind]
        if value not in known:
            raise ShapeError(f"{where} is {_shown(value)}; one of {', '.join(map(str, known))}")
        return kind(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise ShapeError(f"{where} is {_shown(value)}; it must be of type {kind.__name__}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


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
