"""What other tests have that attacks need, too."""

from tests.dashboard.browser.conftest import browser, page, visitor
from tests.lockstep.conftest import lockstep

__all__ = ["browser", "lockstep", "page", "visitor"]
