"""`lockstep doctor`: what is installed, reachable and missing here, with the fix for each."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.runs.leftovers import Leftover

NAMESPACES = ("lockstep", "lockstep-collector", "lockstep-runs")
"""Of the chart's own values, installed as its README says."""
LONGEST_WAIT = 3600.0


def doctor(
    clean: Annotated[
        bool,
        typer.Option(
            "--clean", help="Remove rings, cgroups and network namespaces that dead runs left."
        ),
    ] = False,
    raw: Annotated[
        Path | None,
        typer.Option(
            metavar="BUNDLE",
            help="Instead of this machine: what every parser reads in a bundle of `lockstep capture"
            " --share`, or in the folder it was unpacked to.",
        ),
    ] = None,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="Instead of this machine: whether the release of the chart runs, and why not."
            " `helm test` does the same.",
        ),
    ] = False,
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of the release; repeatable. Default: the chart's."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of the cluster; default as kubectl.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")
    ] = None,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="Wait for pods that start.")] = 0.0,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Say what this machine has, what it lacks, and how to mend it.

    Exits 1 when something required is missing, or a parser did not understand all of a bundle;
    what is absent only costs a feature. With --cluster 1 where a part does not run, 69 where the
    API server does not answer.
    """
    chosen = {"--clean": clean, "--raw": raw is not None, "--cluster": cluster}
    if sum(chosen.values()) > 1:
        given = " and ".join(name for name, is_given in chosen.items() if is_given)
        output.fail(ExitCode.USAGE, f"{given} look at different things; give one")
    if cluster:
        return _of_cluster(tuple(namespace or NAMESPACES), kubeconfig, context, wait, form)
    if namespace or kubeconfig or context or wait:
        output.fail(
            ExitCode.USAGE, "--namespace, --kubeconfig, --context and --wait go with --cluster"
        )
    if raw is not None:
        return _of_bundle(raw, form)
    from lockstep.doctor import machine
    from lockstep.runs import leftovers

    checks, sources = machine.examine()
    left = leftovers.find()
    cleaned = [each for each in left if clean and _removed(each)]
    kept = [each for each in left if each not in cleaned]
    tree = {
        "schema_version": 1,
        "checks": [asdict(check) for check in checks],
        "sources": [asdict(source) for source in sources],
        "leftovers": [each.run for each in kept],
        "cleaned": [each.run for each in cleaned],
    }
    parts = [
        _table(("", "what", "found, and what would mend it"), [
            (check.state.value, check.name, f"{check.found}; {check.fix}".removesuffix("; "))
            for check in checks
        ]),
        _table(("", "source", "what it sees, or why not"), [
            (source.state, source.name, source.found) for source in sources
        ]),
    ]  # fmt: skip
    parts += [f"{each.run}: dead, its traces remain; `lockstep doctor --clean`" for each in kept]
    parts += [f"{each.run}: dead, its traces were removed" for each in cleaned]
    output.document(tree, form, "\n".join(filter(None, parts)))
    missing = any(check.state is machine.State.MISSING for check in checks)
    return ExitCode.WARNING if missing else ExitCode.OK


def _of_cluster(
    namespaces: Sequence[str], kubeconfig: Path | None, context: str | None, wait: float,
    form: Format,
) -> int:  # fmt: skip
    """What of a release runs; 1 where something does not."""
    from time import monotonic, sleep

    from lockstep.doctor import installed
    from lockstep.workloads.launch.kubernetes.api import ApiCluster, KubeconfigError
    from lockstep.workloads.launch.kubernetes.cluster import ClusterError

    if not 0 <= wait <= LONGEST_WAIT:
        output.fail(ExitCode.USAGE, f"--wait is {wait:g}; it must be from 0 to {LONGEST_WAIT:g}")
    try:
        api = ApiCluster(kubeconfig, context)
    except ImportError:
        output.fail(
            ExitCode.UNREACHABLE, "--cluster needs the extra kubernetes, not installed here"
        )
    except KubeconfigError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    try:
        parts = installed.watched(api, namespaces, wait, monotonic, sleep)
    except ClusterError as error:
        output.fail(ExitCode.UNREACHABLE, str(error))
    finally:
        api.close()
    tree = {"schema_version": 1, "parts": [asdict(each) for each in parts]}
    rows = [
        (each.state.value, each.name, f"{each.found}; {each.fix}".removesuffix("; "))
        for each in parts
    ]
    output.document(tree, form, _table(("", "part", "found, and what would mend it"), rows))
    runs = all(each.state is installed.State.OK for each in parts)
    return ExitCode.OK if runs else ExitCode.WARNING


def _of_bundle(path: Path, form: Format) -> int:
    """What the parsers make of a bundle; 1 where one did not understand all."""
    from lockstep.doctor import bundle
    from lockstep.doctor.parsers import MOST_EXAMPLES, understood, unread

    try:
        whole = bundle.read(path)
        found = understood(whole)
    except bundle.BundleError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"{path} cannot be read: {error.strerror}")
    tree = {
        "schema_version": 1,
        "parsers": [
            {
                "name": one.name,
                "lines": one.lines,
                "values": one.values,
                "not_understood": one.not_understood.total(),
                "examples": [words for words, _ in one.not_understood.most_common(MOST_EXAMPLES)],
                "not_used": dict(sorted(one.not_used.items())),
                "told": [],
            }
            for one in found
        ],
        "unread": unread(whole),
        "absent": whole.absent,
    }
    rows = [
        (one.name, str(one.lines), str(one.values), str(one.not_understood.total()))
        for one in found
    ]
    parts = [output.grid(("parser", "lines", "values", "not understood"), rows)]
    for one in found:
        parts += [
            f"{one.name}: {count} x {words}"
            for words, count in one.not_understood.most_common(MOST_EXAMPLES)
        ]
        if one.not_used:
            parts.append(f"{one.name}: known, and not used: {', '.join(sorted(one.not_used))}")
    parts += [f"{part}: for people; no parser reads it" for part in unread(whole)]
    parts += [f"{part}: absent: {why}" for part, why in whole.absent.items()]
    output.document(tree, form, "\n".join(parts))
    return ExitCode.WARNING if any(one.not_understood for one in found) else ExitCode.OK


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A line each, cut to the width of a terminal; `-o json` has everything."""
    text = output.grid(header, rows) if rows else ""
    if not output.is_terminal(sys.stdout):
        return text
    width = shutil.get_terminal_size().columns
    lines = text.splitlines()
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in lines)


def _removed(leftover: "Leftover") -> bool:
    from lockstep.runs.leftovers import clean

    try:
        clean(leftover)
    except OSError as error:
        output.note(f"lockstep: {leftover.run} was not removed: {error}")
        return False
    return True
