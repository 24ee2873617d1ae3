"""A benchmark as data: its cells, and the steps of each with every word of their commands."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from lockstep.bench.spec import MAX_CELLS, STEPS, Bench, BenchError, Container, Scalar, Task
from lockstep.bench.spec import Workload as Workload

ARCHIVE, METRICS = "archive", "metrics"
"""Outputs that have a meaning: of `launch` the run's archive, of any step numbers for the row."""
CLUSTER = ("kubernetes", "argo")
FILES = ("hostfile", "resume", "data")
"""Options that name files of this machine."""
VERDICTS = (0, 1, 2, 3)
"""Exit codes of `lockstep analyze` that are verdicts."""
MAX_NAME = 120
"""Characters of a cell's name, which is a folder; a longer one ends in a hash of the whole."""
_PARAMETER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.-]*)\}")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a cell: a command, or a container.

    Attributes:
        command: Words of the command; of a container, what overrules its own.
        container: None = a command on this machine.
        background: It goes on while the steps after it run, until `wait`.
        waits: It waits for what runs in the background, at most `timeout`.
        always: It runs though a step before it failed.
        inputs: Files that must be there.
        outputs: Name -> path.
        ok: Exit codes that are no failure.
    """

    name: str
    command: tuple[str, ...] = ()
    container: Container | None = None
    background: bool = False
    waits: bool = False
    always: bool = False
    inputs: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0
    ok: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the matrix, once.

    Attributes:
        name: Its workload, and its value on every axis that has several.
        settings: Options of `lockstep run`, those of the workload and of the matrix.
    """

    bench: str
    name: str
    repeat: int
    workload: Workload
    launcher: str
    nodes: int
    ranks_per_node: int
    layout: Mapping[str, int]
    image: str
    settings: Mapping[str, Scalar | list[Scalar]]

    @property
    def ranks(self) -> int:
        """Of all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def folder(self) -> Path:
        """Inside the benchmark's folder."""
        return Path("cells") / self.name / str(self.repeat)

    @property
    def sizes(self) -> dict[str, int]:
        """`dp`, `tp` and `pp`; what the layout leaves out is for data parallel."""
        tp, pp = self.layout.get("tp", 1), self.layout.get("pp", 1)
        return {"dp": self.layout.get("dp", max(1, self.ranks // (tp * pp))), "tp": tp, "pp": pp}

    def known_columns(self) -> dict[str, Any]:
        """Its columns of the table of results that are known before it runs."""
        return {
            "bench": self.bench, "cell": self.name, "repeat": self.repeat,
            "workload": self.workload.workload or "exec", "launcher": self.launcher,
            "nodes": self.nodes, "ranks": self.ranks, **self.sizes, "image": self.image or None,
            "settings": json.dumps({**self.settings, **(
                {"command": list(self.workload.command)} if self.workload.command else {}
            )}, sort_keys=True),
        }  # fmt: skip


def cells(bench: Bench) -> tuple[Cell, ...]:
    """Every cell, all of them once before any is repeated: an early end leaves a whole matrix.

    Raises:
        BenchError: The matrix cannot be: sizes that do not multiply, nothing in it, or too much.
    """
    matrix = bench.matrix
    points = list(product(matrix.workloads, matrix.layouts, matrix.nodes, matrix.ranks_per_node,
                          matrix.images, matrix.settings))  # fmt: skip
    if len(points) * bench.repeats > MAX_CELLS:
        raise BenchError(f"the matrix has {len(points) * bench.repeats} cells; at most {MAX_CELLS}")
    found: list[Cell] = []
    for repeat in range(bench.repeats):
        for workload, layout, nodes, per_node, image, settings in points:
            one = bench.workloads[workload]
            cell = Cell(
                bench.name, "", repeat, one, bench.launcher, nodes, per_node, layout, image,
                {**one.options, **settings},
            )  # fmt: skip
            if any(_excluded(cell, each) for each in matrix.exclude):
                continue
            sizes = cell.sizes
            if cell.ranks != sizes["dp"] * sizes["tp"] * sizes["pp"]:
                raise BenchError(
                    f"impossible cell: {workload} on {nodes} nodes x {per_node} ranks is"
                    f" {cell.ranks} ranks, and dp {sizes['dp']} x tp {sizes['tp']} x pp"
                    f" {sizes['pp']} is {sizes['dp'] * sizes['tp'] * sizes['pp']}; change it or"
                    " leave it out by [matrix] exclude"
                )
            if one.command and bench.launcher != "local":
                raise BenchError(
                    f"[workloads.{workload}] is a command, which runs on this machine only, and"
                    f" [bench] launcher is {bench.launcher}; leave one of them out"
                )
            found.append(replace(cell, name=_name(bench, cell, settings)))
    if not found:
        raise BenchError("[matrix] exclude leaves no cell")
    seen: set[tuple[str, int]] = set()
    for cell in found:
        if (cell.name, cell.repeat) in seen:
            raise BenchError(
                f"[matrix] has the same cell twice; {cell.name} ({cell.ranks} ranks,"
                f" {'x'.join(f'{key}{value}' for key, value in cell.sizes.items())}) comes from two"
                " of its entries, leave one out"
            )
        seen.add((cell.name, cell.repeat))
    return tuple(found)


def steps(
    bench: Bench, cell: Cell, out: Path, attempt: int, lockstep: Sequence[str],
    here: Path = Path(),
) -> list[Step]:  # fmt: skip
    """What a cell goes through: the steps of STEPS, replaced and joined by those of the file.

    Args:
        out: The benchmark's folder.
        attempt: How often the cell was begun before; each has an archive of its own.
        lockstep: How our own command is called.
        here: Folder of the benchmark's file.

    Raises:
        BenchError: A template names a parameter that is not there.
    """
    folder = out / cell.folder
    own = _own(bench, cell, folder / f"archive-{attempt}", tuple(lockstep), here)
    order = [own[name] for name in STEPS]
    for task in bench.tasks:
        made = _made(task, own.get(task.name))
        if task.name in own:
            order = [made if each.name == task.name else each for each in order]
        if task.after is not None:
            order = [each for each in order if each.name != task.name]
            place = next(i for i, each in enumerate(order) if each.name == task.after)
            order.insert(place + 1, made)
    known: dict[str, str] = {
        **{key: _text(value) for key, value in bench.parameters.items()},
        **{key: _text(value) for key, value in cell.settings.items()
           if isinstance(value, Scalar)},
        "bench": cell.bench, "cell": cell.name, "repeat": str(cell.repeat), "out": str(out),
        "here": str(here), "folder": str(folder), "workload": cell.workload.name,
        "nodes": str(cell.nodes),
        "ranks": str(cell.ranks), "ranks_per_node": str(cell.ranks_per_node),
        "image": cell.image, "launcher": cell.launcher,
        **{key: str(value) for key, value in cell.sizes.items()},
        ARCHIVE: str(folder / f"archive-{attempt}"),
    }  # fmt: skip
    filled = []
    for step in order:
        outputs = {key: str(folder / _filled(path, known, step.name))
                   for key, path in step.outputs.items()}  # fmt: skip
        known = {**known, **outputs}  # a step knows its own outputs, and those before it
        filled.append(_filled_step(step, known, outputs))
    return filled


def fingerprint(cell: Cell, planned: Sequence[Step]) -> str:
    """Changes with anything that is run."""
    text = json.dumps([cell.known_columns(), [asdict(each) for each in planned]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def options(bench: Bench, cell: Cell, here: Path) -> dict[str, Scalar | list[Scalar]]:
    """Options of `lockstep run` for a cell; files of this machine are beside the benchmark's.

    Args:
        here: Folder of the benchmark's file.
    """
    from lockstep.workloads.spec import SYNTHETIC_DATA

    told = {**bench.options, **cell.settings}
    files = ("kubeconfig",) if cell.launcher in CLUSTER else FILES
    made_here = told.get("data") in SYNTHETIC_DATA
    return {
        name: str(here / value)
        if name in files and isinstance(value, str) and not (name == "data" and made_here)
        else value
        for name, value in told.items()
    }  # fmt: skip


def run_command(
    cell: Cell, bench: Bench, lockstep: Sequence[str], here: Path
) -> tuple[str, ...]:  # fmt: skip
    """`lockstep run ...` of a cell, without --out."""
    told = options(bench, cell, here)
    words = [*lockstep, "run", *([cell.workload.workload] if cell.workload.workload else [])]
    words += ["--nodes", str(cell.nodes), "--ranks-per-node", str(cell.ranks_per_node)]
    if cell.workload.workload:
        for name, value in cell.sizes.items():
            words += [f"--{name}", str(value)]
        words += ["--launcher", cell.launcher, "--no-verdict"]
    words += _options(told)
    if cell.image:
        words += ["--image", cell.image]
    if cell.launcher in CLUSTER:
        words += ["--timeout", f"{bench.timeout:g}"]
        # An Indexed Job leaves no archive, and a chain of Argo measures in a step of its own.
        if cell.launcher == "kubernetes" and "measure" not in told and (told.get("kind") != "job"):
            words += ["--measure"]
    return tuple(words)


def _own(
    bench: Bench, cell: Cell, archive: Path, lockstep: tuple[str, ...], here: Path
) -> dict[str, Step]:
    """The steps that nobody replaced."""
    at = str(archive)
    launch = (*run_command(cell, bench, lockstep, here), "--out", at, "-o", "jsonl")
    if cell.workload.command:
        launch = (*launch, "--exec", "--", *cell.workload.command)
    # A template's braces are for what the file says; our own words have none.
    literal = tuple(word if cell.workload.command and word in cell.workload.command
                    else word.replace("{", "{{").replace("}", "}}") for word in launch)  # fmt: skip
    report = (*lockstep, "report", "{archive}", "--format", ",".join(bench.report))
    return {
        "configure": Step("configure"),
        "launch": Step("launch", literal, background=True),
        "wait": Step("wait", waits=True, timeout=bench.timeout),
        "analyze": Step("analyze", (*lockstep, "analyze", "{archive}", "-o", "jsonl"), ok=VERDICTS),
        "report": Step("report", report if bench.report else ()),
        "clean-up": Step("clean-up", always=True),
    }


def _made(task: Task, replaced: Step | None) -> Step:
    """The step of the file; one that replaces `launch` is waited for as that was."""
    step = replaced or Step(task.name)
    command = task.command or (
        (*task.container.command, *task.container.args) if task.container else ()
    )
    return replace(
        step, command=command, container=task.container, inputs=task.inputs, outputs=task.outputs,
        timeout=task.timeout, ok=task.ok, waits=False if task.name == "wait" else step.waits,
    )  # fmt: skip


def _filled_step(step: Step, known: Mapping[str, str], outputs: Mapping[str, str]) -> Step:
    for name in step.inputs:
        if name not in known:
            raise BenchError(f"step {step.name} has an input {name!r}, which no step before it has"
                             f" as output")  # fmt: skip
    return replace(
        step, command=tuple(_filled(word, known, step.name) for word in step.command),
        inputs=tuple(known[name] for name in step.inputs), outputs=outputs,
    )  # fmt: skip


def _filled(text: str, known: Mapping[str, str], step: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name not in known:
            raise BenchError(
                f"step {step} names {{{name}}}, which is no parameter; write it into [parameters],"
                f" or {{{{{name}}}}} for the braces themselves"
            )
        return known[name]

    return _PARAMETER.sub(value, text)


def _name(bench: Bench, cell: Cell, settings: Mapping[str, Any]) -> str:
    matrix, sizes = bench.matrix, cell.sizes
    words = [cell.workload.name]
    if len(matrix.nodes) > 1:
        words.append(f"nodes={cell.nodes}")
    if len(matrix.ranks_per_node) > 1:
        words.append(f"per-node={cell.ranks_per_node}")
    if len(matrix.layouts) > 1:
        words.append("x".join(f"{key}{value}" for key, value in sizes.items()))
    if len(matrix.images) > 1:
        words.append(f"image={matrix.images.index(cell.image)}-{cell.image.rpartition('/')[2]}")
    if len(matrix.settings) > 1:
        told = "+".join(f"{key}={_text(value)}" for key, value in settings.items())
        # What a file system or a label cannot hold is told by its place in the list.
        place = matrix.settings.index(settings)
        words.append(f"s{place}" + (f"-{told}" if told else ""))
    name = re.sub(r"[^A-Za-z0-9_.=+,-]+", "-", ",".join(words))
    if len(name) <= MAX_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: MAX_NAME - 13]}-{mark}"


def _excluded(cell: Cell, each: Mapping[str, Scalar]) -> bool:
    told: dict[str, Scalar] = {
        "workload": cell.workload.name, "nodes": cell.nodes, "image": cell.image,
        "ranks_per_node": cell.ranks_per_node, **cell.sizes,
    }  # fmt: skip
    return all(told[key] == value for key, value in each.items())


def _options(settings: Mapping[str, Scalar | list[Scalar]]) -> Iterator[str]:
    for name, value in settings.items():
        for each in value if isinstance(value, list) else [value]:
            if each is False:
                continue
            yield f"--{name}"
            if each is not True:
                yield _text(each)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
