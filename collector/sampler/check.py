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
    checks = [_checked(state) for state in sampler.states()]
    sampler.stop(timeout=0.0)
    return checks


def _checked(source_state: SourceState) -> SourceCheck:
    """A source in one line; what it read may have come from anybody."""
    state, words = _state(source_state)
    line = "".join(letter if letter.isprintable() else " " for letter in words)
    return SourceCheck(source_state.health.name, state, " ".join(line.split()))


def _state(source_state: SourceState) -> tuple[str, str]:
    health = source_state.health
    why = "; ".join(
        f"{reason}: {message}" for reason, message in sorted(source_state.failures.items())
    )
    if health.stalled:
        return "stalled", f"did not answer; {why}".rstrip("; ")
    if not health.up and (health.available or why):
        return "failing", why
    if not health.available:
        return "absent", source_state.missing
    series = f"{source_state.series} series in {1e3 * (health.duration or 0):.1f} ms"
    return ("partly", f"{series}; {why}") if why else ("ok", series)
