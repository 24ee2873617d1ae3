"""What each source sees on this machine, and why one sees nothing: for `lockstep doctor`."""

from dataclasses import dataclass

from lockstep.collector.sampler.reader import SourceState
from lockstep.collector.sampler.sampler import Sampler


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """One source: `state` is ok, partly, failing, stalled or absent; `found` says it in words."""

    name: str
    state: str
    found: str


def examined(sampler: Sampler) -> list[SourceCheck]:
    """Reads every source once, at most until its deadline, and stops the sampler."""
    sampler.start()
    sampler.wait_ready()
    found = [_checked(one) for one in sampler.states()]
    sampler.stop(timeout=0.0)
    return found


def _checked(one: SourceState) -> SourceCheck:
    """A source in one line; what it read may have come from anybody."""
    state, words = _state(one)
    line = "".join(letter if letter.isprintable() else " " for letter in words)
    return SourceCheck(one.health.name, state, " ".join(line.split()))


def _state(one: SourceState) -> tuple[str, str]:
    health = one.health
    why = "; ".join(f"{reason}: {message}" for reason, message in sorted(one.failures.items()))
    if health.stalled:
        return "stalled", f"did not answer; {why}".rstrip("; ")
    if not health.up and (health.available or why):
        return "failing", why
    if not health.available:
        return "absent", one.missing
    series = f"{one.series} series in {1e3 * (health.duration or 0):.1f} ms"
    return ("partly", f"{series}; {why}") if why else ("ok", series)
