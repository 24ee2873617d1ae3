"""`lockstep score synth`: verdicts over simulated fleets, and what they got wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import ExitCode
from lockstep.evaluation import score_lines, synth_trials
from lockstep.runs import claim
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.evaluation.scoring.score import Case

RESULTS_FILE = "synth.jsonl"
WRITER_FILE = f".{RESULTS_FILE}.writer"
MISTAKES_SHOWN = 40


def score_synth(
    runs: int,
    seed: int,
    out: Path,
    form: Format,
    *,
    variant: str,
    anew: bool = False,
    uninstrumented: bool = False,
    level: str = synth_trials.EASY,
) -> int:
    """N injected and N healthy simulated runs; lines that a file in `out` has are taken from there.

    Args:
        runs: N.
        seed: Of the first run.
        out: Folder of the results.
        form: How to print.
        variant: Of the physics (lockstep.evaluation.synth.variant).
        anew: Make and judge also the runs that have a line.
        uninstrumented: Judge them by their hardware alone: another score, with its own table.
        level: Of difficulty (lockstep.evaluation.synth_trials).

    Raises:
        CommandError: 65, the results cannot be kept; 70, a run could not be judged.
    """
    from lockstep.evaluation.scoring.score import score, score_causes, score_difficulties

    wanted = synth_trials.trials(runs, seed, variant, uninstrumented=uninstrumented, level=level)
    lines = _lines(wanted, out, anew=anew)
    failed = [line["failed"] for line in lines if "failed" in line]
    lines = [line for line in lines if "failed" not in line]
    cases = [synth_trials.case(line) for line in lines]
    tree = {
        "schema_version": 1,
        "kind": "synth",
        "simulated": True,
        "uninstrumented": uninstrumented,
        "variant": variant,
        "level": level,
        "seed": seed,
        "runs": runs,
        "failed": failed,
        **score(cases),
        **score_causes(cases),
        **_healthy(cases, lines, uninstrumented=uninstrumented),
        **score_difficulties(
            [(case, line["fleet"]["difficulties"])
             for case, line in zip(cases, lines, strict=True)]
        ),
    }  # fmt: skip
    output.document(tree, form, _table(tree, lines))
    if failed:
        # As in score real: figures without the runs that failed would flatter.
        output.fail(ExitCode.INTERNAL, f"{len(failed)} of {2 * runs} runs failed: {failed[0]}")
    return ExitCode.OK


def _healthy(
    cases: Sequence["Case"], lines: Sequence[Mapping[str, Any]], *, uninstrumented: bool
) -> dict[str, Any]:
    """What is said of healthy runs; nothing by hardware alone, which can clear nobody."""
    from lockstep.evaluation.scoring.score import score_healthy

    if uninstrumented:
        return {}
    told = map(synth_trials.slower_and_whole, lines)
    return score_healthy([(case, *each) for case, each in zip(cases, told, strict=True)])


def _lines(wanted: list[synth_trials.SynthTrial], out: Path, *, anew: bool) -> list[dict[str, Any]]:
    show, begun = output.Progress(plain_seconds=30.0), monotonic()
    path = out / RESULTS_FILE
    try:
        out.mkdir(parents=True, exist_ok=True)
        with claim.claim_folder(out, WRITER_FILE):
            lines = {} if anew else _read(path)
            todo = [trial for trial in wanted if _key(asdict(trial)) not in lines]
            if len(todo) < len(wanted):
                output.note(
                    f"lockstep: {len(wanted) - len(todo)} of {len(wanted)} runs are in {path}"
                    " from an earlier score; --reanalyze makes and judges them again"
                )
            for done, line in enumerate(synth_trials.judged(todo) if todo else (), 1):
                lines[_key(line)] = line
                score_lines.append(path, line)
                left = (monotonic() - begun) / done * (len(todo) - done)
                show("simulating", f"run {done} of {len(todo)}, about {left / 60:.0f} min left")
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"the score cannot be kept in {out}: {error}")
    show.close()
    return [lines[_key(asdict(trial))] for trial in wanted]


def _key(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes two lines the same trial's."""
    named = tuple(line.get(name) for name in ("seed", "injected", "variant", "delays"))
    level = line.get("level", synth_trials.EASY)
    return (*named, bool(line.get("uninstrumented")), level)


def _read(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Key -> line, as trials.read; that of a trial that failed is as good as none."""
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for text in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
        try:
            line = bounded_json.loads(text)
        except ValueError:
            continue  # the score was killed while it wrote; the trial is judged again
        if isinstance(line, dict) and {"trial", "baselines"} <= line.keys():
            lines[_key(line)] = line
    return lines


def _table(tree: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    head = f"simulated fleets, variant {tree['variant']}, seeds from {tree['seed']}"
    if tree["level"] != synth_trials.EASY:
        head += f", difficulty: {tree['level']}"
    if tree["uninstrumented"]:
        head += "; without their training series: hardware and allocation only"
    parts = [
        head,
        score_lines.figures(tree, "figure (simulated)"),
        score_lines.causes(tree["by_cause"], "cause (simulated)"),
    ]
    if tree["by_difficulty"]:
        rows = {"all": tree["slow"], **tree["by_difficulty"]}
        parts.append(score_lines.difficulties(rows, "difficulty (simulated)"))
    wrong = [sentence for line in lines if (sentence := mistake(line))]
    if wrong:
        parts.append("\n".join(["wrong:", *(f"  {each}" for each in wrong[:MISTAKES_SHOWN])]))
        if len(wrong) > MISTAKES_SHOWN:
            parts.append(f"and {len(wrong) - MISTAKES_SHOWN} more, in {RESULTS_FILE}")
    return "\n\n".join(parts)


def mistake(line: Mapping[str, Any]) -> str | None:
    """How a verdict differs from the truth, in words; None where it is right."""
    from lockstep.evaluation.scoring.score import is_found, is_right

    truths, culprits = line["truths"], line["verdict"]["culprits"]
    right = all(is_found(fault, line["verdict"]) for fault in truths) and all(
        any(is_right(fault, each) and fault["cause"] == each["cause"] for fault in truths)
        for each in culprits
    )
    if right:
        return None
    wanted = [_injected(fault) for fault in truths]
    named = [f"{each['cause']} on {_place(each)}" for each in culprits]
    words = [" and ".join(each) or "nobody" for each in (wanted, named)]
    fleet = line["fleet"]
    setting = f"{fleet['gpus']} GPUs, dp {fleet['dp']} pp {fleet['pp']} tp {fleet['tp']}"
    return (
        f"{line['trial']} ({setting}, {fleet['resolution']}): injected {words[0]}, named {words[1]}"
    )


def _injected(fault: Mapping[str, Any]) -> str:
    words = f"{fault['kind']} ({fault['form']}) on {_place(fault)}"
    if fault["telling"] != "true":
        words += f", telemetry {fault['telling']}"
    size = fault["factor_intended"]
    return words if size is None else f"{words}, {size:.2f}x, {fault['shape']}"


def _place(charge: Mapping[str, Any]) -> str:
    return (
        str(charge.get("link") or charge["node"])
        if charge["rank"] is None
        else f"rank {charge['rank']}"
    )
