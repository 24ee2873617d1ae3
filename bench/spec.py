"""The file of a benchmark: its two tiers, the workflow and the workloads, as dataclasses.

    [bench]                       # the workflow
    name = "nightly"
    repeats = 3

    [workloads.gpt]               # a workload, once for each point of the matrix
    steps = 100

    [matrix]
    nodes = [1, 2, 4]

docs/ml/bench.md has every key. What is wrong is told with its key, and what would be right.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

Scalar = str | int | float | bool
WORKLOADS = ("gpt", "resnet", "logreg", "allreduce")
LAUNCHERS = ("local", "mpirun", "kubernetes", "argo")
STEPS = ("configure", "launch", "wait", "analyze", "report", "clean-up")
"""What every cell goes through, in order; the row of results is written after `analyze`."""
MAX_BYTES = 1 << 20
MAX_CELLS = 10_000
"""A matrix beyond this is a slip: at a minute a cell it would take a week."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class BenchError(ValueError):
    """The file cannot be run; says which key, and what would be right."""


class AskedError(BenchError):
    """What was asked for on the command line cannot be meant; the file may be as good as ever."""


class UnreachableError(BenchError):
    """What it needs does not answer, or cannot be written; the file may be as good as ever."""


@dataclass(frozen=True, slots=True)
class Container:
    """A step that is a container: run by docker or podman on this machine."""

    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A step of the file: of a name of STEPS it replaces that one, of another it is added.

    Attributes:
        command: Its words; `{name}` stands for a parameter.
        container: Instead of a command.
        after: The step that it follows.
        inputs: Parameters whose files must be there before it starts.
        outputs: Parameter -> path in the cell's folder; later steps call it `{parameter}`. Numbers
            of a JSON file called `metrics` become columns of the result.
        timeout: Seconds.
        ok: Exit codes that are no failure.
    """

    name: str
    command: tuple[str, ...] = ()
    container: Container | None = None
    after: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0
    ok: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run, whatever starts it.

    Attributes:
        name: As the matrix calls it.
        workload: One of WORKLOADS; empty where it is a command.
        command: A program of yours, started once a rank.
        options: Options of `lockstep run` without their dashes; a list gives one several times.
    """

    name: str
    workload: str = ""
    command: tuple[str, ...] = ()
    options: Mapping[str, Scalar | list[Scalar]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every combination of these is a cell.

    Attributes:
        layouts: `dp`, `tp`, `pp`; an empty one leaves all ranks to data parallel.
        settings: Options of `lockstep run` that go over those of the workload.
        exclude: Cells that have all of these are left out.
    """

    workloads: tuple[str, ...]
    layouts: tuple[Mapping[str, int], ...] = ({},)
    nodes: tuple[int, ...] = (1,)
    ranks_per_node: tuple[int, ...] = (1,)
    images: tuple[str, ...] = ("",)
    settings: tuple[Mapping[str, Scalar | list[Scalar]], ...] = ({},)
    exclude: tuple[Mapping[str, Scalar], ...] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """A whole file.

    Attributes:
        timeout: Seconds of a cell's run.
        options: Options of `lockstep run` for its launcher: hostfile, image, namespace, queue ...
        parameters: What templates may name.
    """

    name: str
    workloads: Mapping[str, Workload]
    matrix: Matrix
    launcher: str = "local"
    repeats: int = 1
    timeout: float = 3600.0
    report: tuple[str, ...] = ("html",)
    options: Mapping[str, Scalar] = field(default_factory=dict)
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()


def read(path: Path) -> Bench:
    """The benchmark in a file.

    Raises:
        BenchError: It cannot be read, or is not one.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise BenchError(f"{path} has more than {MAX_BYTES} bytes; a benchmark's file is small")
    try:
        tree = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BenchError(f"{path} is not TOML: {error}") from error
    try:
        return parse(tree)
    except BenchError as error:
        raise BenchError(f"{path}: {error}") from None


def parse(tree: Mapping[str, Any]) -> Bench:
    """The same of the file's tree."""
    _known("the file", tree, ("bench", "parameters", "workloads", "matrix", "steps"))
    head = _table(tree.get("bench", {}), "[bench]")
    own = ("name", "launcher", "repeats", "timeout", "report", "options")
    _known("[bench]", head, own)
    workloads = {
        name: _workload(name, _table(each, f"[workloads.{name}]"))
        for name, each in _table(tree.get("workloads", {}), "[workloads]").items()
    }
    if not workloads:
        raise BenchError(f"[workloads.NAME] is missing; NAME is one of {', '.join(WORKLOADS)}, or"
                         " yours with a command")  # fmt: skip
    name = _name(head.get("name"), "[bench] name")
    report = _texts(head.get("report", ["html"]), "[bench] report")
    for each in report:
        _one_of("[bench] report", each, ("html", "md", "json"))
    return Bench(
        name=name,
        workloads=workloads,
        matrix=_matrix(_table(tree.get("matrix", {}), "[matrix]"), tuple(workloads)),
        launcher=_one_of("[bench] launcher", head.get("launcher", "local"), LAUNCHERS),
        repeats=_whole(head.get("repeats", 1), "[bench] repeats"),
        timeout=_seconds(head.get("timeout", 3600.0), "[bench] timeout"),
        report=report,
        options={key.replace("_", "-"): value
                 for key, value in _scalars(head.get("options", {}), "[bench] options").items()},
        parameters=_scalars(tree.get("parameters", {}), "[parameters]"),
        tasks=_tasks(tree.get("steps", [])),
    )  # fmt: skip


def _workload(name: str, table: Mapping[str, Any]) -> Workload:
    where = f"[workloads.{name}]"
    _name(name, where)
    command = _command(table.get("command", []), f"{where} command")
    kind = table.get("workload", "" if command else name)
    if command and kind:
        raise BenchError(f"{where} has a workload and a command; leave one out")
    if not command:
        _one_of(f"{where} workload", kind, WORKLOADS)
    rest = {key: value for key, value in table.items() if key not in ("workload", "command")}
    for key in ("nodes", "ranks-per-node", "dp", "tp", "pp", "launcher", "out", "image"):
        if key in rest or key.replace("-", "_") in rest:
            raise BenchError(f"{where} {key} belongs into [matrix] or [bench]")
    return Workload(name, kind, command, _options(rest, where))


def _matrix(table: Mapping[str, Any], workloads: tuple[str, ...]) -> Matrix:
    _known("[matrix]", table, tuple(each.name for each in fields(Matrix)))

    def listed(key: str, default: Sequence[Any]) -> Sequence[Any]:
        values = table.get(key, default)
        if not isinstance(values, list | tuple) or not values:
            raise BenchError(f"[matrix] {key} is {values!r}; it must be a list that is not empty")
        if len({repr(each) for each in values}) < len(values):
            raise BenchError(f"[matrix] {key} has the same twice; `[bench] repeats` repeats cells")
        return values

    layouts = []
    for each in listed("layouts", [{}]):
        _known("[matrix] layouts", _table(each, "[matrix] layouts"), ("dp", "tp", "pp"))
        layouts.append({key: _whole(value, f"[matrix] layouts {key}")
                        for key, value in each.items()})  # fmt: skip
    exclude = [_scalars(each, "[matrix] exclude") for each in table.get("exclude", [])]
    axes = ("workload", "nodes", "ranks_per_node", "dp", "tp", "pp", "image")
    for each in exclude:
        _known("[matrix] exclude", each, axes)
    return Matrix(
        workloads=tuple(_one_of("[matrix] workloads", each, workloads)
                        for each in listed("workloads", workloads)),
        layouts=tuple(layouts),
        nodes=tuple(_whole(each, "[matrix] nodes") for each in listed("nodes", [1])),
        ranks_per_node=tuple(_whole(each, "[matrix] ranks_per_node")
                             for each in listed("ranks_per_node", [1])),
        images=_texts(listed("images", [""]), "[matrix] images"),
        settings=tuple(_options(_table(each, "[matrix] settings"), "[matrix] settings")
                       for each in listed("settings", [{}])),
        exclude=tuple(exclude),
    )  # fmt: skip


def _tasks(rows: Any) -> tuple[Task, ...]:
    if not isinstance(rows, list):
        raise BenchError("steps is no list; write each as [[steps]]")
    tasks: list[Task] = []
    for each in rows:
        step = _table(each, "[[steps]]")
        name = _name(step.get("name"), "[[steps]] name")
        where = f"step {name}"
        _known(where, step, tuple(one.name for one in fields(Task)))
        container = None
        if "container" in step:
            inner = _table(step["container"], f"{where} container")
            _known(f"{where} container", inner, ("image", "command", "args"))
            if not isinstance(inner.get("image"), str) or not inner["image"]:
                raise BenchError(f"{where} container needs an image")
            container = Container(
                inner["image"], _texts(inner.get("command", []), f"{where} container command"),
                _texts(inner.get("args", []), f"{where} container args"),
            )  # fmt: skip
        command = _command(step.get("command", []), f"{where} command")
        if bool(command) == (container is not None):
            raise BenchError(f"{where} needs a command or a container, and one of them only")
        places = (*STEPS, *(one.name for one in tasks))
        after = step.get("after")
        if after is not None:
            _one_of(f"{where} after", after, places)
        elif name not in STEPS:
            raise BenchError(f"{where} is new; say after which: {', '.join(places)}")
        if name in (one.name for one in tasks):
            raise BenchError(f"{where} is there twice; give one of them another name")
        outputs = _table(step.get("outputs", {}), f"{where} outputs")
        for key, path in outputs.items():
            if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts:
                raise BenchError(f"{where} outputs {key} must be a path inside the cell's folder")
        ok = step.get("ok", [0])
        if not isinstance(ok, list) or not all(type(one) is int for one in ok):
            raise BenchError(f"{where} ok is {ok!r}; it must be a list of exit codes")
        tasks.append(Task(
            name, command, container, after, _texts(step.get("inputs", []), f"{where} inputs"),
            dict(outputs), _seconds(step.get("timeout", 600.0), f"{where} timeout"), tuple(ok),
        ))  # fmt: skip
    return tuple(tasks)


def _command(told: Any, where: str) -> tuple[str, ...]:
    """Its words; files of 0.1 call our rank by the module's name of then."""
    words = _texts(told, where)
    return tuple(
        "lockstep.workloads" if (before, word) == ("-m", "workloads") else word
        for before, word in zip(("", *words), words, strict=False)
    )


def _known(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise BenchError(f"{where} has no key {key!r}{hint}")


def _one_of(where: str, word: Any, known: Sequence[str]) -> str:
    if word not in known:
        near = get_close_matches(str(word), known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BenchError(f"{where} is {word!r}; it must be one of {', '.join(known)}{hint}")
    return str(word)


def _table(tree: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(tree, dict):
        raise BenchError(f"{where} is {tree!r:.60}; it must be a table")
    return tree


def _name(value: Any, where: str) -> str:
    if value is None:
        raise BenchError(f'{where} is missing; give one, as name = "nightly"')
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BenchError(f"{where} is {value!r:.60}; it must be up to 40 letters, digits, dots,"
                         " dashes or underscores, a letter or digit first")  # fmt: skip
    return value


def _whole(value: Any, where: str) -> int:
    if type(value) is not int or not 1 <= value <= 1_000_000:
        raise BenchError(f"{where} is {value!r:.60}; it must be a whole number from 1")
    return value


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise BenchError(f"{where} is {value!r:.60}; it must be seconds above 0")
    return float(value)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise BenchError(f"{where} is {value!r:.60}; it must be a list of texts")
    return tuple(value)


def _scalars(told: Any, where: str) -> Mapping[str, Scalar]:
    for key, value in _table(told, where).items():
        if not isinstance(value, Scalar):
            raise BenchError(f"{where} {key} is {value!r:.60}; it must be a text or a number")
    return dict(told)


def _options(table: Mapping[str, Any], where: str) -> Mapping[str, Scalar | list[Scalar]]:
    for key, value in table.items():
        each = value if isinstance(value, list) else [value]
        if not all(isinstance(one, Scalar) for one in each):
            raise BenchError(f"{where} {key} is {value!r:.60}; it must be a text or a number, or a"
                             " list of them")  # fmt: skip
    return {key.replace("_", "-"): value for key, value in table.items()}
