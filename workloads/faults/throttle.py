"""The quota of a cpu-quota fault in force on this process."""

from workloads.faults.cgroup import CpuGroup, Quota
from workloads.faults.quota import QuotaLoop, StepModel


class Throttle:
    """Puts this process under the quota that a step needs, and out of it again."""

    def __init__(self, group: CpuGroup, model: StepModel) -> None:
        self._group = group
        self._loop = QuotaLoop(model)
        self._in_force = False
        self._wanted = 0.0

    def hold(self, wanted: float) -> None:
        """The step that begins should take `wanted` own seconds."""
        self._wanted = wanted
        quota = Quota.of(self._loop.share(wanted))
        if self._in_force:
            self._group.limit(quota)
        else:
            self._group.enter(quota)
            self._in_force = True

    def observe(self, own_seconds: float) -> None:
        """The step has ended."""
        if self._in_force:
            self._loop.observe(self._wanted, own_seconds)

    def lift(self) -> None:
        """No quota from here on."""
        if self._in_force:
            self._group.leave()
            self._loop.pause()
            self._in_force = False

    def proof(self) -> dict[str, float]:
        """What the kernel counted of it."""
        return self._group.statistics()
