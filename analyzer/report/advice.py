"""What to do about each cause: actions with commands to copy."""

import shlex
from collections.abc import Container
from dataclasses import dataclass

from analyzer.report import blocks
from analyzer.report.blocks import Block
from analyzer.report.runbooks import runbooks
from analyzer.run import Culprit, Verdict
from analyzer.slowness.processor import off_processor
from collector.contract.words import Cause


@dataclass(frozen=True, slots=True)
class Action:
    """One action; `{node}`, `{gpu}` and `{rank}` in a command are filled in and quoted."""

    purpose: str
    text: str
    command: str = ""


DRAIN = Action("mitigate", "Take the node out of service after the next checkpoint.",
               "kubectl cordon {node} && kubectl drain {node} --ignore-daemonsets")  # fmt: skip
_QUERY = "ssh {node} nvidia-smi -i {gpu} -q -d "

ADVICE: dict[str, tuple[Action, ...]] = {
    Cause.THERMAL: (
        Action("verify", "Read temperatures and throttle reasons on the node.",
               _QUERY + "TEMPERATURE,PERFORMANCE,CLOCK"),
        DRAIN,
        Action("prevent", "Have inlet temperature, fans and the heat sink's seating checked."),
    ),
    Cause.POWER: (
        Action("verify", "Compare the power limit with its default.", _QUERY + "POWER,PERFORMANCE"),
        Action("mitigate", "Restore the limit if nobody lowered it on purpose.",
               "ssh {node} 'nvidia-smi -i {gpu} -pl $(nvidia-smi -i {gpu}"
               " --query-gpu=power.default_limit --format=csv,noheader,nounits)'"),
        Action("prevent", "Check the rack's power cap and the supply."),
    ),
    Cause.SLOW_GPU: (
        Action("verify", "Run the vendor's diagnosis on the GPU.", "ssh {node} dcgmi diag -r 3"),
        DRAIN,
        Action("prevent", "Compare driver, firmware and persistence mode with a healthy node."),
    ),
    Cause.ECC: (
        Action("verify", "Count corrected and uncorrected errors and remapped rows.",
               _QUERY + "ECC,ROW_REMAPPER"),
        Action("mitigate", "Reset the GPU if a remap is pending; drain the node if it fails.",
               "ssh {node} nvidia-smi --gpu-reset -i {gpu}"),
        Action("prevent", "Have the GPU replaced when rows can no longer be remapped."),
    ),
    Cause.XID: (
        Action("verify", "Read the driver's messages; the XID catalogue says what each wants.",
               "ssh {node} \"dmesg -T | grep -i xid | tail\""),
        DRAIN,
    ),
    Cause.PCIE: (
        Action("verify", "Compare the link's width and generation with their maximum.",
               "ssh {node} nvidia-smi -i {gpu}"
               " --query-gpu=pcie.link.gen.current,pcie.link.gen.max,"
               "pcie.link.width.current,pcie.link.width.max --format=csv"),
        DRAIN,
        Action("prevent", "Have the GPU and its riser reseated."),
    ),
    Cause.NVLINK: (
        Action("verify", "See which links are down or count errors.",
               "ssh {node} 'nvidia-smi nvlink -s -i {gpu}; nvidia-smi nvlink -e -i {gpu}'"),
        DRAIN,
    ),
    Cause.LINK: (
        Action("verify", "Look for drops, errors and a lower speed on the node's links.",
               "ssh {node} 'ip -s link; ibstat'"),
        Action("verify", "Measure the links between the nodes.",
               "lockstep run allreduce --nodes 8 --probe"),
        Action("mitigate", "Take the node or the link out of service; have cable and optics"
               " checked."),
    ),
    Cause.GC: (
        Action("verify", "See what the rank's Python process is doing.",
               "ssh {node} py-spy top --pid $(pgrep -n -f train)"),
        Action("prevent", "Collect garbage on all ranks in the same step: gc.disable(), and"
               " gc.collect() every so many steps."),
    ),
    Cause.HOST_CPU: (
        Action("verify", "See what else runs, and whether a quota holds the rank back.",
               "ssh {node} 'top -b -n 1 | head -20;"
               " grep -r throttled_ /sys/fs/cgroup --include=cpu.stat'"),
        Action("mitigate", "Raise the pod's CPU limit, or move the neighbour away."),
    ),
    Cause.DATA: (
        Action("verify", "See whether storage or the loader is slow on this node.",
               "ssh {node} 'iostat -x 1 3; df -h'"),
        Action("mitigate", "Give the rank more loader workers, or its shard another volume."),
    ),
    Cause.FREEZE: (
        Action("verify", "See what the process is waiting for.",
               "ssh {node} 'ps -eo pid,stat,wchan:32,cmd | grep -E \"^ *[0-9]+ +[DT]\"'"),
        Action("mitigate", "Restart the run without the node from the last checkpoint."),
    ),
    Cause.CRASH: (
        Action("verify", "Look for the kernel's reason.",
               "ssh {node} 'dmesg -T | grep -iE \"oom|killed|xid|segfault\" | tail'"),
        Action("mitigate", "Restart from the last checkpoint; drain the node if it crashes again."),
    ),
    Cause.SOFTWARE: (
        Action("verify", "Compare driver, firmware and kernel with a node that is not slow.",
               "ssh {node} 'uname -r; nvidia-smi"
               " --query-gpu=driver_version,vbios_version --format=csv'"),
        Action("mitigate", "Bring the node to the image of its peers, or the peers back to the"
               " version that was faster."),
        Action("prevent", "Lock a baseline and compare a run before and after every update."),
    ),
}  # fmt: skip
"""Cause -> actions; causes without a row get `UNSURE`."""

WITHOUT_GPU: dict[str, tuple[Action, ...]] = {
    Cause.SLOW_GPU: (
        Action("verify", "Compare the processor's clock and what else runs with a healthy node.",
               "ssh {node} 'lscpu | grep MHz; top -b -n 1 | head -20'"),
        DRAIN,
        Action("prevent", "Compare firmware, power governor and kernel with a healthy node."),
    ),
    Cause.CRASH: (
        Action("verify", "Look for the kernel's reason.",
               "ssh {node} 'dmesg -T | grep -iE \"oom|killed|segfault\" | tail'"),
        *ADVICE[Cause.CRASH][1:],
    ),
    Cause.SOFTWARE: (
        Action("verify", "Compare firmware and kernel with a node that is not slow.",
               "ssh {node} uname -r"),
        *ADVICE[Cause.SOFTWARE][1:],
    ),
}  # fmt: skip
"""The same for nodes without GPUs, where what to do is another."""

ASLEEP = (
    Action("verify", "See what the training thread sleeps in or waits for: a file, a lock, another"
           " process.", "ssh {node} py-spy dump --pid $(pgrep -n -f train)"),
    Action("mitigate", "Compare that place of the program, and what it reads there, with a rank"
           " that is not slow."),
)  # fmt: skip
UNSURE = (
    Action("verify", "The cause is not known: compare the rank's node with a healthy one."),
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
    told: set[tuple[str, Action]] = set()
    for culprit in verdict.culprits:
        for action in _actions(culprit, without_gpu):
            # Several ranks of a node need one visit.
            if (_place(culprit), action) in told and culprit.gpu is None:
                continue
            told.add((_place(culprit), action))
            rows.append([_priority(action, culprit), _place(culprit), action.purpose, action.text])
            if action.command:
                comment = f"# {_line(_place(culprit))}: {action.purpose}"
                command = f"{comment}\n{_filled(action.command, culprit)}"
                commands += [command] * (command not in commands)
    for one in verdict.structure:
        # What all nodes share is nobody's fault, and still somebody's to mend.
        shared = ADVICE.get(str(one.get("cause")), ())
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


def _actions(culprit: Culprit, without_gpu: Container[str | None]) -> tuple[Action, ...]:
    if culprit.cause == Cause.UNKNOWN and off_processor(culprit):
        return ASLEEP
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


def _filled(command: str, culprit: Culprit) -> str:
    if culprit.scope == "node":
        # All of its GPUs are meant: nvidia-smi without -i asks all.
        command = command.replace(" -i {gpu}", "")
    return command.format(
        node=_argument(culprit.node),
        gpu="GPU" if culprit.gpu is None else culprit.gpu,
        rank=culprit.rank,
    )


def _argument(name: str | None) -> str:
    # Names come from the run: quoted, they cannot smuggle in a second command, and a name that
    # begins as an option does is not written at all.
    line = _line(name or "NODE")
    return "NODE" if line.startswith("-") else shlex.quote(line)


def _line(text: str) -> str:
    # A line break would end the line that people copy, quoted or not.
    return "".join(each if each.isprintable() else " " for each in text)
