"""The rank collects Python's garbage, alone and again and again."""

from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import compute_share, share_of_excess
from collector.contract.words import Cause, Phase

MUCH = 0.35
"""Share of the excess inside the collector from which it is the cause: what is collected was made
just before, which takes about as long (measured: 0.6 of a storm is collection)."""
LITTLE = 0.1
MOSTLY = 0.6
UNTOLD = -2.5
"""Log odds: nothing speaks for it, and nothing against. Garbage seldom slows one rank alone, so
the word is "unknown" (e^-2.5 = 0.08 of its odds)."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong by the collector's own time; a guess by phase and CPU time."""
    if finding.kind != "slow":
        return Evidence(Cause.GC, -8.0)
    facts: list[Fact] = []
    collecting = share_of_excess(grid, finding, "gc")
    if collecting is not None:
        much = collecting >= MUCH
        text = f"{collecting:.0%} of the excess is in Python's garbage collector"
        facts.append(Fact(much, text, "operations gc of ops.parquet by rank"))
        # Timed around the very thing, as the data phase is.
        return Evidence(
            Cause.GC, 8.0 if much else -6.0 if collecting < LITTLE else -1.0, tuple(facts)
        )
    missing = ("time in the garbage collector",)
    if compute_share(grid, finding) is None:
        # Of a program without phases all is in none of them.
        return Evidence(Cause.GC, UNTOLD, (), missing)
    rest = finding.share.get(Phase.OTHER, 0.0)
    text = f"{rest:.0%} of the excess is in no named phase of the step"
    facts.append(Fact(rest >= MOSTLY, text, "phase shares of the finding"))
    odds = 1.0 if rest >= MOSTLY else -6.0
    cpu = share_of_excess(grid, finding, "cpu")
    if cpu is not None:
        busy = cpu >= MUCH
        text = f"{cpu:.0%} of the excess is CPU time of the training thread"
        facts.append(Fact(busy, text, "cpu_seconds of steps.parquet"))
        odds += 1.0 if busy else -3.0
    return Evidence(Cause.GC, odds, tuple(facts), missing)


SPEC = CauseSpec(
    cause=Cause.GC,
    evidence=evidence,
    must_see=(
        "Seconds in the collector that grew with the own time; they are timed by callbacks."
        " Without them: the excess in no named phase of the step, and all of it CPU time of the"
        " training thread."
    ),
    must_not_see="The excess in the data or a compute phase.",
    words="it collects Python's garbage again and again",
    node_words="its ranks collect Python's garbage again and again",
    advice=(
        Action("verify", "See what the rank's Python process is doing.",
               "ssh {node} py-spy top --pid $(pgrep -n -f train)"),
        Action("prevent", "Collect garbage on all ranks in the same step: gc.disable(), and"
               " gc.collect() every so many steps."),
    ),
)  # fmt: skip
