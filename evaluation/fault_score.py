"""`lockstep score faults`: runs what is missing, and prints what each fault measurably did."""

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.evaluation import fault_trials, score_tables, trials
from lockstep.evaluation.fault_trials import FaultSetting, FaultTrial
from lockstep.runs import claim, leftovers
from lockstep.terminal import output
from lockstep.terminal.output import Format
from lockstep.workloads.network.names import token


def score_faults(setting: FaultSetting, out: Path, form: Format, *, reanalyze: bool) -> int:
    """Every fault kind and every disturbance, once each; resumed where it was interrupted.

    Raises:
        CommandError: 65, the results cannot be kept; 70, a run failed or left something behind.
    """
    wanted, refused = fault_trials.fault_trials(setting)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with claim.claim_folder(out, trials.WRITER_FILE):
            lines, failed = _lines(setting, wanted, out, reanalyze=reanalyze)
        left = left_by(out / setting.name)
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"the score cannot be kept in {out}: {error}")
    tree = {
        "schema_version": 1,
        "kind": "faults",
        "setting": setting.name,
        "emulated_devices": setting.pace,
        "seed": setting.seed,
        "tolerance": fault_trials.TOLERANCE,
        **fault_trials.summary(lines),
        "tables": score_tables.of_faults(lines),
        "trials": lines,
        "refused": refused,
        "failed": failed,
        "leftovers": left,
    }
    output.document(tree, form, _table(tree))
    if left:
        output.fail(ExitCode.INTERNAL, f"{len(left)} things were left behind: {left[0]}")
    if failed:
        output.fail(ExitCode.INTERNAL, f"{len(failed)} of {len(wanted)} runs failed: {failed[0]}")
    return ExitCode.OK


def _lines(
    setting: FaultSetting, wanted: list[FaultTrial], out: Path, *, reanalyze: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """The results of all trials, run or read, and sentences about those that failed."""
    known = trials.read(out)
    show, begun, done = output.Progress(plain_seconds=30.0), monotonic(), 0
    todo = [each for each in wanted if (setting.name, each.name) not in known]
    lines, failed = [], []
    for trial in wanted:
        line = known.get((setting.name, trial.name))
        archive = out / setting.name / trial.name
        if line is None or (reanalyze and archive.is_dir()):
            eta = (monotonic() - begun) / done * (len(todo) - done) if done else None
            left = "" if eta is None else f", about {eta / 60:.0f} min left"
            which = f"run {done + 1} of {len(todo)}{left}" if line is None else "diagnosed again"
            show("injecting", f"{trial.name}, {which}")
            try:
                if line is None:
                    done += 1
                    words = fault_trials.command(setting, trial, archive)
                    trials.execute(trial.name, words, archive)
                line = fault_trials.judge(setting, trial, archive)
            except trials.TrialError as error:
                output.note(f"lockstep: {error}; tried again by the next score")
                failed.append(str(error))
                continue
            trials.append(out, line)
        lines.append(line)
    show.close()
    return lines, failed


def _table(tree: Mapping[str, Any]) -> str:
    header = (
        "run",
        "asked",
        "measured",
        "95 % interval",
        "within 10 %",
        "named",
        "right",
        "why not",
    )
    rows = [_row(line) for line in tree["trials"]]
    devices = "emulated devices" if tree["emulated_devices"] else "no emulated devices"
    parts = [f"{tree['setting']}, {devices}", output.grid(header, rows), _counts(tree)]
    parts += score_tables.printed(tree["tables"])
    for title, entries in (
        ("cannot be injected here:", [f"{kind}: {why}" for kind, why in tree["refused"].items()]),
        ("failed:", tree["failed"]),
        ("left behind:", tree["leftovers"]),
    ):
        if entries:
            parts.append("\n".join([title, *(f"  {each}" for each in entries)]))
    if not tree["leftovers"]:
        parts.append("nothing was left behind: no cgroup, namespace, process or shared memory")
    return "\n\n".join(parts)


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    interval = line["interval"]
    named = [f"{each['cause']} on {_place(each)}" for each in line["named"]]
    right = "yes" if line["rank_right"] else "no"
    if line["rank_right"] and line["cause_right"] is False:
        right = "place only"
    return (
        line["trial"],
        "" if line["asked"] is None else f"{line['asked']:.2f}",
        "" if line["measured"] is None else f"{line['measured']:.3f}",
        "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        {None: "", True: "yes", False: "no"}[line["within"]],
        " and ".join(named) or "nobody",
        right,
        line.get("why") or "",
    )


def _place(culprit: Mapping[str, Any]) -> str:
    rank = culprit["rank"]
    return str(culprit["node"]) if rank is None else f"rank {rank}"


def _counts(tree: Mapping[str, Any]) -> str:
    words = {
        "within_tolerance": "effects within 10 % of what was asked",
        "nobody_blamed": "runs without a fault in which no rank was named",
    }
    return "\n".join(
        f"{tree[key]['count']} of {tree[key]['of']} {text}" for key, text in words.items()
    )


def left_by(folder: Path, proc: Path = Path("/proc")) -> list[str]:
    """Traces of the runs whose archives are in a folder, each in a few words; best none."""
    runs = {name for path in folder.glob(f"*/{RUN_FILE}") if (name := _run(path)) is not None}
    ours = runs | {token(run) for run in runs}
    dead = [_describe(left) for left in leftovers.find() if left.run in ours]
    return [*_processes({f"{folder}/", *runs}, proc), *dead]


def _describe(left: leftovers.Leftover) -> str:
    places = [str(place) for place in (left.rings, left.group) if place is not None]
    network = [f"network {left.network}"] if left.network is not None else []
    return f"{left.run}: {', '.join([*places, *network])}"


def _run(path: Path) -> str | None:
    try:
        run = bounded_json.read(path)["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # an archive that was being made when the score was killed
    return run if isinstance(run, str) and run else None


def _processes(marks: set[str], proc: Path) -> list[str]:
    """Those whose command line has one of the marks: an archive in the folder, or a run's name."""
    wanted = [mark.encode() for mark in marks]
    left = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            gone = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue  # it ended meanwhile
        if not gone and any(mark in words for mark in wanted):
            left.append(f"process {entry.name}")
    return sorted(left)
