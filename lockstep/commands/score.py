"""`lockstep score`: how good the verdicts are, over labelled real runs."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.evaluation.trials import Setting, Trial
    from lockstep.workloads.spec import Layout


class Kind(StrEnum):
    """What is scored: real runs, with emulated devices unless `--pace off`; or simulated ones."""

    REAL = "real"
    FAULTS = "faults"
    SYNTH = "synth"


class Variant(StrEnum):
    """The physics of simulated fleets (lockstep.evaluation.synth.variant)."""

    USUAL = "usual"
    WIDE = "wide"
    HELD_OUT = "held-out"


class Pace(StrEnum):
    """Whether devices are emulated."""

    ON = "on"
    OFF = "off"


def score(
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", help="What to score: real, faults or synth.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="Injected runs, and as many healthy ones.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; then one higher.")] = 0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Results and archives.")] = Path(
        "scores"
    ),
    nodes: Annotated[
        int | None,
        typer.Option(min=2, help="Emulated nodes, one rank each; default 4, for faults 2."),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(metavar="all|dp=D,tp=T,pp=P", help="How the ranks are split; all = each."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=40, help="Steps of each run; default 250, for faults 150.")
    ] = None,
    pace: Annotated[Pace, typer.Option(help="Emulated devices.")] = Pace.ON,
    device_noise: Annotated[
        float, typer.Option(min=0, max=0.5, help="Spread of an emulated device's step time.")
    ] = 0.02,
    variant: Annotated[
        Variant, typer.Option(help="Physics of simulated fleets; held-out is for evaluation only.")
    ] = Variant.USUAL,
    level: Annotated[
        str,
        typer.Option(
            metavar="easy|hard|NAMES",
            help="With synth: tidy runs, difficulties drawn at random, or these (a,b) in each.",
        ),
    ] = "easy",
    uninstrumented: Annotated[
        bool, typer.Option("--uninstrumented", help="With synth: judge by hardware alone.")
    ] = False,
    reanalyze: Annotated[
        bool, typer.Option("--reanalyze", help="Diagnose the kept archives again.")
    ] = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Run N injected and N healthy runs and say how often the verdict was right.

    `faults` runs every kind of fault at every size and every disturbance once, and says what each
    measurably did. An interrupted score goes on where it stopped; minutes to hours. `synth`
    simulates its runs with their telemetry, and its output says so.

    Example: lockstep score real --runs 20 --seed 100
    """
    if kind is Kind.SYNTH:
        if (nodes, layout, steps) != (None, None, None):
            output.fail(
                ExitCode.USAGE,
                "score synth draws sizes, layouts and steps from the seed; leave out --nodes,"
                " --layout and --steps",
            )
        from lockstep.evaluation.synth_score import score_synth

        return score_synth(
            runs, seed, out, form,
            variant=variant.value, anew=reanalyze, uninstrumented=uninstrumented,
            level=_level(level),
        )  # fmt: skip
    if uninstrumented or level != "easy":
        named = "--uninstrumented" if uninstrumented else "--level"
        output.fail(ExitCode.USAGE, f"{named} goes with score synth")
    if kind is Kind.FAULTS:
        if layout is not None:
            output.fail(ExitCode.USAGE, "score faults has no --layout; score real splits its ranks")
        from lockstep.evaluation.fault_score import score_faults
        from lockstep.evaluation.fault_trials import FaultSetting

        each = FaultSetting(nodes or 2, steps or 150, pace is Pace.ON, device_noise, seed)
        return score_faults(each, out, form, reanalyze=reanalyze)
    from lockstep.evaluation import score_tables, trials
    from lockstep.evaluation.scoring.score import score as figures
    from lockstep.runs import claim

    setting = trials.Setting(
        nodes or 4, steps or 250, pace is Pace.ON, device_noise, _layouts(layout, nodes or 4)
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with claim.claim_folder(out, trials.WRITER_FILE):
            lines, failed = _lines(setting, trials.trials(runs, seed), out, reanalyze)
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"the score cannot be kept in {out}: {error}")
    tree = {
        "schema_version": 1,
        "kind": kind.value,
        "setting": setting.name,
        "emulated_devices": setting.pace,
        "seed": seed,
        "runs": runs,
        "failed": failed,
        **figures([trials.case(line) for line in lines]),
        "tables": score_tables.of_runs(lines),
    }
    output.document(tree, form, _table(tree, lines))
    if failed:
        # Figures without the runs that failed would flatter: they are no score.
        output.fail(ExitCode.INTERNAL, f"{len(failed)} of {2 * runs} runs failed: {failed[0]}")
    return ExitCode.OK


def _level(text: str) -> str:
    """The level, its difficulties in the order of their list.

    Raises:
        BadParameter: It names what is no difficulty.
    """
    from lockstep.evaluation.synth.fleet import Difficulty

    if text in ("easy", "hard"):
        return text
    names = [name.strip() for name in text.split(",")]
    known = [each.value for each in Difficulty]
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"--level: {name!r} is no difficulty; easy, hard, or of {', '.join(known)}"
            )
    return ",".join(name for name in known if name in names)


def _layouts(text: str | None, nodes: int) -> "tuple[Layout, ...]":
    """What `--layout` names.

    Raises:
        BadParameter: It is no split of the nodes.
    """
    from lockstep.analyzer.read.optrace.load import parse_layout
    from lockstep.analyzer.shapes.run import LoadError
    from lockstep.evaluation.trials import every_layout
    from lockstep.workloads.spec import Layout, SpecError

    if text is None:
        return ()
    if text == "all":
        return every_layout(nodes)
    try:
        sizes = parse_layout(text)
    except LoadError as error:
        raise typer.BadParameter(str(error)) from None
    if (sizes.dsp, sizes.vpp) != (1, 1):
        raise typer.BadParameter(
            f"--layout {text}: the runs of a score have no dsp or vpp; give dp, tp and pp"
        )
    try:
        return (Layout(nodes, 1, sizes.dp, sizes.tp, sizes.pp),)
    except SpecError as error:
        raise typer.BadParameter(f"--layout: {error}") from None


def _lines(
    setting: "Setting", wanted: "list[Trial]", out: Path, reanalyze: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """The results of all trials, run or read, and sentences about those that failed."""
    from lockstep.evaluation import trials

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
            show("scoring", f"{trial.name}, {which}")
            try:
                if line is None:
                    trials.run(setting, trial, archive)
                    done += 1
                line = trials.judge(setting, trial, archive)
            except trials.TrialError as error:
                output.note(f"lockstep: {error}; not scored, tried again by the next score")
                failed.append(str(error))
                done += 1
                continue
            trials.append(out, line)
        lines.append(line)
    show.close()
    return lines, failed


def _table(tree: Mapping[str, Any], lines: list[dict[str, Any]]) -> str:
    from lockstep.evaluation import score_tables

    devices = "emulated devices" if tree["emulated_devices"] else "no emulated devices"
    head = f"{tree['setting']}, {devices}, seeds from {tree['seed']}"
    parts = [f"{head}; two tables, and the {tree['healthy']} healthy runs stand in both"]
    parts += score_tables.printed(tree["tables"])
    wrong = [sentence for line in lines if (sentence := _mistake(line))]
    if wrong:
        parts.append("\n".join(["wrong:", *(f"  {each}" for each in wrong)]))
    if tree["failed"]:
        parts.append("\n".join(["failed:", *(f"  {each}" for each in tree["failed"])]))
    return "\n\n".join(parts)


def _mistake(line: Mapping[str, Any]) -> str | None:
    fault = line["truth"]
    wanted = [] if fault is None else [(fault["rank"], fault["cause"])]
    named = [(each["rank"], each["cause"]) for each in line["verdict"]["culprits"]]
    if wanted == named:
        return None
    size = fault["factor_intended"] if fault else None
    words = [
        " and ".join(f"{cause} on rank {rank}" for rank, cause in pairs) or "nobody"
        for pairs in (wanted, named)
    ]
    factor = "" if size is None else f" ({size:.2f}x)"
    return f"{line['trial']}: injected {words[0]}{factor}, named {words[1]}"
