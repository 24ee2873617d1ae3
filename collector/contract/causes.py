"""Why a rank is slow or gone: one row a cause. `analyzer.causes.specs` says what is known."""

from enum import StrEnum

from lockstep.collector.contract.kubernetes import Family


class Cause(StrEnum):
    """The closed vocabulary of causes, in the order in which evidence is weighed.

    A row is the word, and the condition that it makes bad at its node; without one it is the run's
    own doing. To each but the last belongs a file in `analyzer/causes/specs`.
    """

    _value_: str
    family: Family | None

    def __new__(cls, word: str, family: Family | None = None) -> "Cause":
        """A word with the condition of its row."""
        cause = str.__new__(cls, word)
        cause._value_ = word
        cause.family = family
        return cause

    THERMAL = "thermal", Family.GPU
    POWER = "power", Family.GPU
    ECC = "ecc", Family.GPU
    XID = "xid", Family.GPU
    PCIE = "pcie", Family.GPU
    NVLINK = "nvlink", Family.NVLINK
    SLOW_GPU = "slow-gpu", Family.GPU
    HOST_CPU = "host-cpu", Family.STRAGGLER
    DATA = "data", Family.STRAGGLER
    GC = "gc"
    CHECKPOINT = "checkpoint"
    LINK = "link", Family.RDMA
    CONGESTION = "congestion", Family.RDMA
    FREEZE = "freeze", Family.STRAGGLER
    CRASH = "crash", Family.STRAGGLER
    SOFTWARE = "software"
    UNKNOWN = "unknown", Family.STRAGGLER


FAMILY: dict[str, Family] = {cause: cause.family for cause in Cause if cause.family is not None}
"""Cause -> condition of its node."""
