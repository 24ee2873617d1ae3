"""How long is long enough, at each interval."""

import pytest

from lockstep.analyzer.read.prometheus.access import access
from lockstep.watch.settings import Settings


@pytest.mark.parametrize(("interval", "close"), [(0.2, 120.0), (1.0, 120.0), (15.0, 300.0)])
def test_a_finding_is_over_after_twenty_cycles_and_never_before_two_minutes(interval, close):
    settings = Settings(access("http://127.0.0.1:9090", {}), None, None, interval)

    assert close == settings.pace.close
