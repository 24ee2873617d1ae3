"""What a verdict claims, and whether one says more than another.

With less to look at, a verdict may say the same or less: fewer culprits, less certainty, unknown.
It may not name anybody else, be more certain, or clear somebody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.analyzer.shapes.run import UNIFORM as UNIFORM
from lockstep.analyzer.shapes.run import Verdict

HEALTHY, CLEARED, UNKNOWN, ACCUSED = "healthy", "cleared", "unknown", "accused"
SAME = 0.02
"""Confidences that differ by less are the same: estimates move a little with every sample."""
TIERS = ("record", "page")


@dataclass(frozen=True)
class Charge:
    """How certainly somebody is named.

    `cause` is a word of the contract, `confidence` is in it, `place` in that it is this one.
    """

    cause: str
    confidence: float
    tier: str
    place: float = 1.0


@dataclass(frozen=True)
class Claim:
    """What is claimed of a run.

    Attributes:
        says: HEALTHY, CLEARED (slow, and no node is to blame), UNKNOWN or ACCUSED.
        named: Who is named -> how certainly; of a node or rack all of its ranks.
    """

    says: str
    named: Mapping[str, Charge] = field(default_factory=dict)


def claim(verdict: Verdict, ranks_of: Mapping[str, tuple[int, ...]]) -> Claim:
    """The claim of a verdict; `ranks_of` gives the ranks of each node."""
    named: dict[str, Charge] = {}
    for one in verdict.culprits:
        place = 1.0 if one.place_confidence is None else one.place_confidence
        charge = Charge(one.cause, one.confidence, one.tier, place)
        whole = one.scope == "node" and one.node is not None
        ranks = ranks_of.get(str(one.node), ()) if whole else (one.rank,)
        named |= {one.who: charge} | {f"rank {rank}": charge for rank in ranks if rank is not None}
    if named:
        return Claim(ACCUSED, named)
    if verdict.status == "healthy":
        return Claim(HEALTHY)
    uniform = any(one["kind"] == UNIFORM for one in verdict.structure)
    return Claim(CLEARED if uniform or verdict.status == "degraded" else UNKNOWN)


def bolder(more: Claim, less: Claim, *, later: bool = False) -> tuple[str, ...]:
    """In which ways the claim made with `less` to look at says more than that made with `more`.

    Empty where it says the same or less.

    Args:
        more: The claim made with everything there.
        less: The claim made with less.
        later: What is missing is the run's beginning, and nothing else. A verdict is about what was
            seen: who looks at the last hour only cannot know that all ranks were faster before, nor
            that they were as slow, so "slower, and no node is to blame" and "healthy" are the same
            there. Both say that no rank holds the others back; neither clears anybody whom the
            other does not.
    """
    if less.says == UNKNOWN or (later and {more.says, less.says} == {CLEARED, HEALTHY}):
        return ()
    if less.says != ACCUSED:
        return () if less.says == more.says else (f"{more.says} became {less.says}",)
    words = [f"{who} is named" for who in less.named if who not in more.named]
    for who, now in less.named.items():
        then = more.named.get(who)
        if then is None:
            continue
        if TIERS.index(now.tier) > TIERS.index(then.tier):
            words.append(f"{who} is paged")
        if now.place > then.place + SAME:
            words.append(f"{who} is the place more surely: {then.place:.2f} became {now.place:.2f}")
        if now.cause == "unknown":
            continue
        if now.cause != then.cause:
            words.append(f"{who} has the cause {now.cause}, not {then.cause}")
        elif now.confidence > then.confidence + SAME:
            words.append(f"{who} is surer: {then.confidence:.2f} became {now.confidence:.2f}")
    return tuple(words)
