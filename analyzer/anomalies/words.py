"""What the hardware of a job without training series says, in a sentence."""

from collections.abc import Sequence
from datetime import datetime

from analyzer.anomalies.activity import Activity
from analyzer.anomalies.shape import who
from analyzer.causes import CAUSE_WORDS
from analyzer.run import Culprit

ALONE = "No training series were there, so this rests on its hardware alone."


def culprit_sentence(culprits: Sequence[Culprit], seen: Activity, ratio: float | None) -> str:
    """The sentence of a verdict that names somebody.

    Args:
        culprits: Who is named, the most certain first.
        seen: How much the job's GPUs work.
        ratio: The peers' activity since over before.
    """
    parts = []
    for culprit in culprits:
        why = CAUSE_WORDS.get(culprit.cause, culprit.cause)
        first = culprit.evidence[0].text.removeprefix(f"{who(str(culprit.node), culprit.gpu)}: ")
        rank = "" if culprit.rank is None else f", rank {culprit.rank},"
        parts.append(
            f"{who(str(culprit.node), culprit.gpu)}{rank} probably holds the job back since"
            f" {_clock(culprit.since)} UTC: {why} ({first}). Confidence"
            f" {culprit.confidence:.2f}."
        )
    if ratio is not None:
        parts.append(f"Since then the other GPUs have {ratio:.2f}x their {seen.name} of before.")
    return " ".join((*parts, ALONE))


def no_culprit_sentence(
    told: int, expected: int, seen: Activity | None, ratio: float | None, since: str | None
) -> str:
    """The sentence of a verdict that names nobody.

    Args:
        told: GPUs of the job that told of themselves.
        expected: GPUs of the job.
        seen: How much they work; None = not known.
        ratio: Their activity since over before; None = it did not fall.
        since: When it fell.
    """
    if seen is None:
        why = f"{told} of the job's {expected} GPUs told how much they work"
        return f"Unknown: no training series were there, and {'none' if not told else why}."
    if ratio is not None and since is not None:
        return (
            f"Unknown: the job's GPUs have {ratio:.2f}x their {seen.name} of before since"
            f" {_clock(since)} UTC, and the hardware of none tells why. No training series were"
            " there."
        )
    return (
        f"Unknown: no training series were there; of {told} of the job's {expected} GPUs no"
        " hardware holds the others back, which a job that waits for its data or its host looks"
        " like too."
    )


def _clock(since: str | None) -> str:
    return "an unknown time" if since is None else (
        datetime.fromisoformat(since).strftime("%Y-%m-%d %H:%M:%S")
    )  # fmt: skip
