"""When a packet of the user-space link arrives, or that it never does; pure.

A packet passes two lines: what its sender sends and what its receiver gets. Each line paces to
its rate, then delays, and both may lose. Packets of one pair of nodes keep their order, as they
do on one cable: jitter delays those behind, too.
"""

import random
from collections.abc import Mapping

from workloads.faults.link import LinkSetting

_NOTHING = LinkSetting()


class Schedule:
    """The lines of all nodes."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - a repeatable link, not a secret
        self._rules: dict[int, dict[int | None, LinkSetting]] = {}
        self._free_at: dict[tuple[int, int | None, bool], float] = {}
        self._last: dict[tuple[int, int], float] = {}

    def set(self, node: int, rules: Mapping[int | None, LinkSetting]) -> None:
        """Replace what holds for a node; packets on their way keep their time."""
        self._rules[node] = dict(rules)

    def arrival(self, source: int, destination: int, size: int, now: float) -> float | None:
        """Seconds of the same clock as `now` at which a packet arrives; None = it is lost.

        Args:
            source: The node that sends it.
            destination: The node that gets it.
            size: Bytes.
            now: When it was sent.
        """
        at: float | None = now
        for node, peer, sends in ((source, destination, True), (destination, source, False)):
            rules = self._rules.get(node)
            if rules and at is not None:
                key = peer if peer in rules else None
                setting = rules.get(key, _NOTHING)
                at = self._through(setting, (node, key, sends), size, at)
        if at is None:
            return None
        pair = source, destination
        at = self._last[pair] = max(at, self._last.get(pair, at))
        return at

    def _through(
        self, setting: LinkSetting, line: tuple[int, int | None, bool], size: int, now: float
    ) -> float | None:
        if setting.loss and self._dice.random() < setting.loss:
            return None
        if setting.rate is not None:
            now = max(now, self._free_at.get(line, now)) + size * 8 / setting.rate
            self._free_at[line] = now
        if setting.delay:
            now += setting.delay + self._dice.uniform(-1.0, 1.0) * setting.jitter
        return now
