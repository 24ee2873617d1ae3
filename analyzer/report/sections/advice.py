"""What to do about each cause: actions with commands to copy."""

import shlex
from collections.abc import Container, Iterable

from lockstep.analyzer.causes.cause_spec import DRAIN, STRAGGLER_RUNBOOK, Action
from lockstep.analyzer.causes.registry import CAUSES, SPECS
from lockstep.analyzer.hangs.run_end import failed_itself
from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.analyzer.stats.processor import off_processor
from lockstep.collector.contract.words import Cause

ADVICE: dict[str, tuple[Action, ...]] = {spec.cause: spec.advice for spec in CAUSES if spec.advice}
"""Cause -> actions; causes without a row get `UNSURE`."""

WITHOUT_GPU: dict[str, tuple[Action, ...]] = {
    spec.cause: spec.advice_without_gpu for spec in CAUSES if spec.advice_without_gpu is not None
}
"""The same for nodes without GPUs, where what to do is another."""

ASLEEP = (
    Action("verify", "See what the training thread sleeps in or waits for: a file, a lock, another"
           " process.", "ssh {node} py-spy dump --pid $(pgrep -n -f train)"),
    Action("mitigate", "Compare that place of the program, and what it reads there, with a rank"
           " that is not slow."),
)  # fmt: skip
FAILED_ITSELF = (
    Action("verify", "Read the end of its log: the program says itself why it ended.",
           "tail -n 50 logs/rank-{rank}.log"),
    Action("mitigate", "Mend the program or its data and start again from the last checkpoint. The"
           " node is suspect only if the same step fails there and nowhere else."),
)  # fmt: skip
"""Of a rank that raised an exception or exited with a code: no reason to drain its node."""
UNSURE = (
    Action("verify", "The cause is unknown: compare the rank's node with a healthy one."),
    DRAIN,
)
NOTHING = (Action("none", "Nothing to do."),)
TOO_LITTLE = (
    Action("detect", "Record more: longer runs, and a collector on every node.", "lockstep doctor"),
)


def advice(
    verdict: Verdict, *, emulated: bool, owners: str, without_gpu: Container[str | None] = ()
) -> Block:
    """The section on what to do.

    Args:
        verdict: Its culprits decide the actions.
        without_gpu: Nodes whose ranks have no GPU.
        emulated: The nodes exist on one machine only, so the commands are examples.
        owners: What people wrote on who does what (report.human).
    """
    rows: list[list[str]] = []
    commands: list[str] = []
    visited: set[tuple[str, Action]] = set()
    for culprit in verdict.culprits:
        for action in actions_of(culprit, without_gpu):
            # Several ranks of a node need one visit.
            if (_place(culprit), action) in visited and culprit.gpu is None:
                continue
            visited.add((_place(culprit), action))
            rows.append([_priority(action, culprit), _place(culprit), action.purpose, action.text])
            if action.command:
                comment = f"# {_line(_place(culprit))}: {action.purpose}"
                command = f"{comment}\n{command_of(action, culprit)}"
                commands += [command] * (command not in commands)
    for structure in verdict.structure:
        # What all nodes share is nobody's fault, and still somebody's to mend.
        shared = ADVICE.get(str(structure.get("cause")), ())
        rows += [["2", "all nodes", action.purpose, action.text] for action in shared]
    if not rows:
        fallback = NOTHING if verdict.status == "healthy" else TOO_LITTLE
        rows += [["–", "", action.purpose, action.text] for action in fallback]
        commands += [action.command for action in fallback if action.command]
    rows.sort(key=lambda row: row[0])
    columns = {"priority": "", "where": "", "purpose": "", "action": ""}
    note = "The nodes of this run are emulated: on a cluster the same commands apply as they stand."
    return blocks.section(
        "actions",
        "What to do",
        [
            blocks.table("Actions", columns, rows),
            blocks.text(note) if emulated and commands else None,
            blocks.code("\n".join(commands)) if commands else None,
            blocks.links(runbooks(verdict.culprits, without_gpu)),
            blocks.human("actions", owners),
        ],
    )


def actions_of(culprit: Culprit, without_gpu: Container[str | None]) -> tuple[Action, ...]:
    """What to do about a culprit, in the order of its cause; never empty."""
    if culprit.cause == Cause.UNKNOWN and off_processor(culprit):
        return ASLEEP
    if culprit.cause == Cause.CRASH and failed_itself(culprit):
        return FAILED_ITSELF
    if culprit.node in without_gpu and culprit.cause in WITHOUT_GPU:
        return WITHOUT_GPU[culprit.cause]
    return ADVICE.get(culprit.cause, UNSURE)


def _priority(action: Action, culprit: Culprit) -> str:
    """1 now, 2 today, 3 when there is time."""
    if action.purpose == "prevent":
        return "3"
    return "1" if culprit.tier == "page" else "2"


def _place(culprit: Culprit) -> str:
    return culprit.node or culprit.link or f"rank {culprit.rank}"


def command_of(action: Action, culprit: Culprit) -> str:
    """An action's command for this culprit's node, GPU and rank, quoted for a shell."""
    command = action.command
    if culprit.scope == "node":
        # All of its GPUs are meant: nvidia-smi without -i asks all.
        command = command.replace(" -i {gpu}", "")
    return command.format(
        node=argument(culprit.node, "NODE"),
        gpu="GPU" if culprit.gpu is None else culprit.gpu,
        rank=culprit.rank,
    )


def argument(name: str | None, otherwise: str) -> str:
    """A name of others as an argument in a command to copy; `otherwise` where it cannot be one."""
    # Names come from the run: quoted, they cannot smuggle in a second command, and a name that
    # begins as an option does is not written at all.
    line = _line(name or otherwise)
    return otherwise if line.startswith("-") else shlex.quote(line)


def _line(text: str) -> str:
    # A line break would end the line that people copy, quoted or not.
    return "".join(character if character.isprintable() else " " for character in text)


def runbooks(
    culprits: Iterable[Culprit], without_gpu: Container[str | None] = ()
) -> dict[str, str]:
    """Words -> address, one a runbook; on nodes without a GPU none that is about GPUs."""
    names = dict.fromkeys(_runbook(culprit, culprit.node in without_gpu) for culprit in culprits)
    return {f"Runbook {name}": PLACEHOLDERS.runbook(name) for name in names}


def _runbook(culprit: Culprit, without_gpu: bool) -> str:
    spec = SPECS.get(culprit.cause)
    if spec is None:
        return STRAGGLER_RUNBOOK
    return (spec.runbook_without_gpu if without_gpu else None) or spec.runbook
