"""Where the ranks stand whom a hang's dumps blame, from the collectors that allow it."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from lockstep.analyzer.hangs.stacks import choice
from lockstep.analyzer.hangs.verdict import HangVerdict, judge
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.flight_recorder import EVIDENCE_FILE
from lockstep.collector.contract.stacks import SCHEMA_VERSION, STACKS_SECONDS, Stacks, from_tree
from lockstep.collector.recorder.rows import AnswerError
from lockstep.runs.hang_dumps import NoDumpsError, read_folder, save_stacks
from lockstep.watch.look.collectors import ask

SECONDS = STACKS_SECONDS / 2
"""For all collectors together: an alert waits for it. Who takes longer gives none."""
MAX_BYTES = 64 << 20
"""Of all answers; a rank of 50 threads has 0.5 MB."""
LOG = logging.getLogger(__name__)

AT_ONCE = 64
"""Collectors that are asked at the same time."""
OFF = "it answers 403"
"""What `ask` says of a collector in which stacks are off."""


@dataclass(frozen=True, slots=True)
class Stood:
    """What the collectors gave.

    Attributes:
        stacks: Of the ranks that were asked for, those that a collector knows.
        silent: Address -> why it gave nothing.
    """

    stacks: Sequence[Stacks] = ()
    silent: Mapping[str, str] = field(default_factory=dict)


def fetch(
    pages: Sequence[str], run: str, ranks: Collection[int], seconds: float = SECONDS
) -> Stood:
    """Ask the collectors for these ranks; never raises for what one does.

    Args:
        pages: Addresses of their pages.
        run: The run's id.
        ranks: At most STACKS_MOST.
        seconds: For all.
    """
    if not ranks:
        return Stood()
    question = f"/stacks?run={quote(run, safe='')}&ranks={','.join(map(str, ranks))}"
    given, silent = ask(pages, question, lambda body: _read(body, run), seconds, MAX_BYTES, AT_ONCE)
    newest: dict[int, Stacks] = {}
    for one in (each for some in given.values() for each in some):
        known = newest.get(one.rank)
        # Of two nodes that know a rank, the one that could read it.
        if one.rank in ranks and (known is None or _worth(one) > _worth(known)):
            newest[one.rank] = one
    told = {
        page: "stacks are off there ([collector] stacks)" if why == OFF else why
        for page, why in silent.items()
    }
    return Stood([newest[rank] for rank in sorted(newest)], told)


def added(
    pages: Sequence[str],
    run: str,
    folder: Path,
    verdict: HangVerdict,
    there: Collection[int],
    seconds: float = SECONDS,
) -> HangVerdict:
    """The verdict with the stacks of whom it blames and a peer of each; they are kept beside it.

    It stands as it is where no collector gives them, which is the default.

    Args:
        folder: Of the dumps that were judged, and their evidence.
        there: Ranks of which a collector knows.
    """
    stood = fetch(pages, run, choice(verdict, there).ranks, seconds)
    if not stood.stacks:
        return verdict
    try:
        save_stacks(folder, bounded_json.read(folder / EVIDENCE_FILE), stood.stacks)
        return judge(read_folder(folder)[0][1], verdict.limit)
    except (OSError, ValueError, NoDumpsError) as error:
        LOG.warning("the stacks of run %r cannot be kept: %s", run, error)
        return verdict


def _worth(stacks: Stacks) -> tuple[bool, float]:
    return stacks.reader is not None, stacks.taken


def _read(body: bytes, run: str) -> list[Stacks]:
    """One collector's answer.

    Raises:
        AnswerError: It is not as agreed.
    """
    try:
        tree = bounded_json.loads(body, limit=None)
        if tree["schema_version"] != SCHEMA_VERSION or tree["run"] != run:
            raise AnswerError("of another schema or run")
        return from_tree(tree)
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError(f"the answer to /stacks is not as agreed: {error!r}") from error
