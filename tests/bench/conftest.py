"""Commands run in process."""

from tests.lockstep.conftest import lockstep

__all__ = ["lockstep"]
