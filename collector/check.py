"""What each source sees on this machine, and why one sees nothing: for `lockstep doctor`."""

from dataclasses import dataclass

from collector.sampler import Sampler


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
    found = []
    for one in sampler.told():
        why = "; ".join(f"{reason}: {message}" for reason, message in sorted(one.failures.items()))
        health = one.health
        if health.stalled:
            found.append(SourceCheck(health.name, "stalled", f"did not answer; {why}".rstrip("; ")))
        elif not health.up and (health.available or why):
            found.append(SourceCheck(health.name, "failing", why))
        elif not health.available:
            found.append(SourceCheck(health.name, "absent", one.missing))
        else:
            series = f"{one.series} series in {1e3 * (health.duration or 0):.1f} ms"
            state = "partly" if why else "ok"
            found.append(SourceCheck(health.name, state, f"{series}; {why}" if why else series))
    sampler.stop(timeout=0.0)
    return found
