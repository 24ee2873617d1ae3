"""What other tests have that attacks need, too."""

from tests.lockstep.conftest import lockstep

__all__ = ["lockstep"]
