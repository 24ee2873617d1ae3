"""The labelled runs behind a score: what to run, how to run it, and the lines they leave."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract import bounded_json
from lockstep.diagnose import diagnosis
from lockstep.evaluation import score_lines
from lockstep.runs import truth
from lockstep.workloads.models import configs
from lockstep.workloads.spec import Layout

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Grid
    from lockstep.evaluation.scoring.score import Case

RESULTS_FILE = "results.jsonl"
WRITER_FILE = f".{RESULTS_FILE}.writer"
"""Of one score at a time: two would remove each other's archives."""
END_SECONDS = 20.0
LIMIT_SECONDS = 600.0
"""A run of the default size takes half a minute."""


class TrialError(Exception):
    """A trial's run did not end as it should; the message says how."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all runs of one score have in common; scores of two settings are never merged."""

    nodes: int
    steps: int
    pace: bool
    device_noise: float
    layouts: tuple[Layout, ...] = ()
    """The seeds take them in turn; empty = data-parallel only."""

    @property
    def name(self) -> str:
        """Folder of its archives."""
        devices = f"noise-{self.device_noise:g}" if self.pace else "unpaced"
        words = [devices, f"nodes-{self.nodes}", f"steps-{self.steps}"]
        if self.layouts:
            each = [f"dp{one.dp}tp{one.tp}pp{one.pp}" for one in self.layouts]
            words.append(each[0] if len(each) == 1 else "all-layouts")
        return "-".join(words)

    def layout(self, seed: int) -> Layout:
        """The layout of the runs with this seed."""
        if not self.layouts:
            return Layout(self.nodes, 1, self.nodes)
        return self.layouts[seed % len(self.layouts)]


def every_layout(nodes: int) -> tuple[Layout, ...]:
    """Every split of the nodes, one rank each, into dp x tp x pp."""
    sizes = [size for size in range(1, nodes + 1) if nodes % size == 0]
    return tuple(
        Layout(nodes, 1, nodes // (tp * pp), tp, pp)
        for tp in sizes
        for pp in sizes
        if nodes % (tp * pp) == 0
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a score: with `random@seed` injected, or healthy."""

    seed: int
    injected: bool

    @property
    def name(self) -> str:
        """Folder of its archive inside the setting's."""
        return f"{'injected' if self.injected else 'healthy'}-{self.seed}"


def trials(count: int, seed: int) -> list[Trial]:
    """`count` injected and as many healthy runs in turn, with seeds from `seed` on."""
    return [Trial(seed + i, injected) for i in range(count) for injected in (True, False)]


def command(setting: Setting, trial: Trial, archive: Path) -> list[str]:
    """The words that run a trial in a process of its own."""
    words = [sys.executable, "-m", "lockstep", "run", "gpt", "--no-verdict", "--out", str(archive)]
    words += ["--nodes", str(setting.nodes), "--steps", str(setting.steps)]
    layout = setting.layout(trial.seed)
    if (layout.tp, layout.pp) != (1, 1):
        words += ["--dp", str(layout.dp), "--tp", str(layout.tp), "--pp", str(layout.pp)]
        words += ["--model", _model(layout)]
    words += ["--seed", str(trial.seed), "--pace", "on" if setting.pace else "off"]
    words += ["--device-noise", f"{setting.device_noise:g}"]
    return [*words, "--fault", f"random@{trial.seed}"] if trial.injected else words


def _model(layout: Layout) -> str:
    """The smallest with a layer for each stage, and a head for each tensor-parallel rank."""
    models = (configs.TINY, configs.SMALL, configs.DEEP)
    fits = [one for one in models if one.layers >= layout.pp and one.heads % layout.tp == 0]
    return (fits or [configs.DEEP])[0].name


def run(setting: Setting, trial: Trial, archive: Path) -> None:
    """`execute` for a trial."""
    execute(trial.name, command(setting, trial, archive), archive)


def execute(name: str, words: list[str], archive: Path) -> None:
    """Runs a command that leaves an archive; what an interrupted score left there goes first.

    Raises:
        TrialError: The run failed.
    """
    if archive.exists():
        shutil.rmtree(archive)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
    ) as process:  # fmt: skip
        try:
            _, said = process.communicate(timeout=LIMIT_SECONDS)
        except BaseException as error:
            # Ctrl-C reached the run as well; give it the time to close what it opened.
            process.terminate()
            try:
                process.communicate(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TrialError(f"{name} took over {LIMIT_SECONDS:.0f} s") from None
            raise
    if process.returncode != 0:
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        raise TrialError(f"{name} exited {process.returncode}: {last[0]}")


def judge(setting: Setting, trial: Trial, archive: Path) -> dict[str, Any]:
    """Diagnoses a trial's archive: one line of the results.

    Raises:
        CommandError: 65, the archive cannot be read.
    """
    from lockstep.analyzer.shapes.verdict_json import verdict_json
    from lockstep.evaluation.published_rules import trivial_answers
    from lockstep.evaluation.scoring.replay import detection_delay

    diagnosed = diagnosis.diagnose_archive(archive)
    diagnosis.write_verdict(diagnosed.verdict, archive)
    fault = next(iter(truth.read(archive)), None)
    return {
        "setting": setting.name,
        "trial": trial.name,
        "archive": str(archive),
        **asdict(trial),
        "truth": fault,
        "verdict": verdict_json(diagnosed.verdict),
        "delay_seconds": None if fault is None else detection_delay(diagnosed.run, fault),
        "node_hours": _node_hours(diagnosed.grid),
        "baselines": trivial_answers(diagnosed.grid, trial.seed),
    }


def case(line: Mapping[str, Any]) -> "Case":
    """A line of the results as the analyzer scores it."""
    from lockstep.evaluation.scoring.score import Case

    keys = ("truth", "verdict", "delay_seconds", "node_hours", "baselines")
    return Case(**{key: line[key] for key in keys})


def read(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(setting, trial) -> line; the last one counts, and a torn line is as good as none."""
    path = folder / RESULTS_FILE
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            line = bounded_json.loads(text)
        except ValueError:
            continue  # the score was killed while it wrote; the trial is run again
        if isinstance(line, dict) and {"setting", "trial"} <= line.keys():
            lines[line["setting"], line["trial"]] = line
    return lines


def append(folder: Path, line: Mapping[str, Any]) -> None:
    """Adds a line to the results, on a line of its own even after a torn one."""
    score_lines.append(folder / RESULTS_FILE, line)


def _node_hours(grid: "Grid") -> float:
    import numpy as np

    if not np.isfinite(grid.start).any() or not np.isfinite(grid.end).any():
        return 0.0
    seconds = float(np.nanmax(grid.end) - np.nanmin(grid.start))
    return len({info.node for info in grid.ranks}) * seconds / 3600
