"""Which steps of which rank are recorded already: every step once, all ranks of it together."""

from collections.abc import Iterable

from lockstep.collector.recorder.parts import Row
from lockstep.collector.recorder.rows import RankAnswer, op_rows, op_start_ns, step_row

PATIENCE_SECONDS = 5.0
"""How long the others wait for a rank that does not answer: the ring holds far more."""
REMEMBERED_STEPS = 4096


class Follower:
    """Turns overlapping answers of `/ops` into rows without gaps or repeats.

    A round records the steps that all ranks have completed; start times inside a step count from
    its earliest operation on any rank that was known when the step was first written.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._attempt: dict[int, int] = {}
        self._answering: set[int] = set()
        self._starts: dict[int, int] = {}
        self._stage: dict[int, int] = {}
        self._world = 0
        self._waiting_since: float | None = None
        self.lost_steps = 0

    @property
    def from_step(self) -> int:
        """First step that a rank which still answers owes."""
        return min((self._next[rank] for rank in self._answering), default=0)

    def take(
        self, answers: Iterable[RankAnswer], from_step: int, now: float, *, last: bool = False
    ) -> tuple[list[Row], list[Row]]:
        """STEPS and OPS rows that these answers add.

        Args:
            answers: Of all nodes that answered.
            from_step: What they were asked for; a rank that owes older steps waits for the next
                round, which asks for them.
            now: Monotonic seconds.
            last: The run has ended: take what is there, unfinished steps' operations included.
        """
        met = {answer.rank: answer for answer in answers}
        for answer in met.values():
            self._meet(answer)
        self._answering = set(met)
        known = {rank: one for rank, one in met.items() if self._next[rank] >= from_step}
        if not known:
            return [], []
        complete = {rank: self._completed(answer) for rank, answer in known.items()}
        until = max(complete.values()) if last else min(complete.values())
        if not last and self._must_wait(known.keys(), now):
            return [], []
        self._note_starts(known.values(), None if last else until)
        steps: list[Row] = []
        ops: list[Row] = []
        stages = 1 + max(self._stage.values())
        for rank, answer in sorted(known.items()):
            first, end = self._next[rank], min(until, complete[rank])
            steps += (step_row(answer, step) for step in answer.steps if first <= step.step < end)
            taken = [op for op in answer.ops if first <= op.step and (last or op.step < end)]
            ops += op_rows(answer, taken, self._starts, stages)
            if answer.truncated and answer.first_step_held is not None:
                self.lost_steps += max(0, answer.first_step_held - first)
            self._next[rank] = max(first, end)
        return steps, ops

    def _meet(self, answer: RankAnswer) -> None:
        rank = answer.rank
        self._world = max(self._world, answer.world)
        self._stage[rank] = answer.pp
        if self._attempt.setdefault(rank, answer.attempt) != answer.attempt:
            # A restarted rank may repeat steps: they are rows of another attempt.
            self._attempt[rank] = answer.attempt
            self._next[rank] = 0
        self._next.setdefault(rank, 0)

    def _completed(self, answer: RankAnswer) -> int:
        """Number of the step that the rank is in."""
        return max((step.step + 1 for step in answer.steps), default=self._next[answer.rank])

    def _must_wait(self, answered: Iterable[int], now: float) -> bool:
        missing = set(range(self._world)) - set(answered)
        if not missing:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since < PATIENCE_SECONDS

    def _note_starts(self, answers: Iterable[RankAnswer], until: int | None) -> None:
        earliest: dict[int, int] = {}
        for answer in answers:
            for op in answer.ops:
                if until is None or op.step < until:
                    start = op_start_ns(answer, op)
                    earliest[op.step] = min(start, earliest.get(op.step, start))
        for step, start in earliest.items():
            self._starts.setdefault(step, start)
        for step in list(self._starts)[: -REMEMBERED_STEPS or None]:
            if step not in earliest:
                del self._starts[step]
