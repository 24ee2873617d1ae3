"""Somebody else's program (`lockstep run --exec`): it trains whatever it trains."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep.workloads.spec import PROGRAM, RunSpec, Training

if TYPE_CHECKING:
    from lockstep.workloads.loop.trainable import Context


class ProgramTask:
    """See tasks.Task."""

    name = PROGRAM
    defaults = Training(model="its own", data="its own")
    options: frozenset[str] = frozenset()
    metrics = frozenset[str]()
    goals: Mapping[str, str] = MappingProxyType({})
    formula = "none"
    sample = "steps"

    def per_step(self, spec: RunSpec) -> int:
        """See Task: what it trains on is not known, so a step counts as one."""
        return 1

    def check(self, spec: RunSpec) -> RunSpec:
        """See Task."""
        return spec

    def prepare(self, spec: RunSpec, workspace: Path) -> Path:
        """See Task: the program brings its data."""
        return workspace

    def about(self, spec: RunSpec) -> dict[str, Any]:
        """See Task."""
        return {"data": "the program's own", "formula": self.formula}

    def set_up(self, context: "Context") -> NoReturn:
        """Never asked for: the program is its own rank."""
        raise NotImplementedError


TASK = ProgramTask()
