"""What a training program sees of the recording; this one records nothing."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import SupportsFloat, TypeVar

ItemT = TypeVar("ItemT")

DIRECTORY_VARIABLE = "LOCKSTEP_DIR"
"""Names the folder of a node's rings; without it nothing is recorded."""
_NOTHING = nullcontext()


class Recorder:
    """Does nothing, for programs that run without Lockstep; RingRecorder has the same methods.

    None of its methods raises anything of ours. Within a graph of torch.compile they do nothing.

    Attributes:
        active: Whether anything is recorded.
    """

    active = False

    def steps(self, items: Iterable[ItemT]) -> Iterable[ItemT]:
        """The items; each is a step, and waiting for the next one is its phase `data`.

        A step ends where the loop asks for the next item, or leaves the loop after having done
        something. In all else (length, attributes, class) what is given behaves as the items do;
        for a plain list, tuple or range it is an iterable of another class, which `json.dumps` and
        other code in C that wants one refuse.
        """
        return items

    def step(self) -> AbstractContextManager[object]:
        """A `with` block that is one step, for programs with a loop of their own."""
        return _NOTHING

    def step_ended(
        self, *, loss: SupportsFloat | None = None, samples: int = 0, tokens: int = 0
    ) -> None:
        """One step has just ended and the next begins, for callbacks of a framework.

        The first step begins with the recorder. Do not mix with `steps` and `step`.
        """

    def phase(self, name: str) -> AbstractContextManager[object]:
        """A `with` block of the step in progress; one within another is a part of that.

        `checkpoint` and `eval` also mark the step as one that is slow by design.

        Args:
            name: data, forward, backward, grad_sync, optimizer, checkpoint, eval or other.
        """
        return _NOTHING

    def collective(
        self,
        group: str = "dp",
        *,
        kind: str = "all-reduce",
        bytes: int = 0,  # noqa: A002 - the word of the thing itself
    ) -> AbstractContextManager[object]:
        """A `with` block around a blocking collective: its time is waiting, not the rank's own.

        Args:
            group: world, dp, pp, tp, ep or cp.
            kind: all-reduce, all-gather, reduce-scatter, broadcast or barrier.
            bytes: What it carries.
        """
        return _NOTHING

    def tell(
        self, *, loss: SupportsFloat | None = None, samples: int | None = None,
        tokens: int | None = None, flops: float | None = None,
    ) -> None:  # fmt: skip
        """Facts of the step in progress; a loss on a GPU is waited for when the step ends."""

    def log(self, **values: SupportsFloat) -> None:
        """Numbers of the program's own, as `log(grad_norm=1.2, reward=0.3)`: their last value.

        They are shown on the axis of the run's charts, from an archive and from Prometheus
        (`lockstep_train_value`), as often as pages are scraped. At most 8 names a rank, of at most
        31 letters, digits and `_`; a value on a GPU is waited for when the step ends.
        """

    def watch_torch(self) -> None:
        """Time from now on what torch.distributed makes this rank wait for.

        Done by itself when a step begins after torch was imported: see docs/ml/timed-waits.md for
        what is timed. Where something is not, the step's own time is unknown.
        """
