"""Large runs are read by the rules where there are rules; everything else is read whole."""

import pytest

from lockstep.analyzer.rules.recording_rules.diagnosis import LARGE, choose


class Rules:
    """A connection to a Prometheus whose rules counted a run's ranks."""

    def __init__(self, *sizes, known=8.0):
        self.sizes = sizes
        self.known = known

    def now(self):
        return 1_760_000_000.0

    def instant(self, query, time):
        if "train_own_seconds:count" in query:
            return [({"run": "r"}, self.known)]
        assert query.startswith('last_over_time(lockstep:rank:count{run="r"}[3600000ms])')
        return [({"run": "r", "world_size": size}, 8.0) for size in self.sizes]


@pytest.mark.parametrize(
    ("sizes", "push_down", "why"),
    [
        ((), False, "the recording rules told nothing of this run"),
        ((str(LARGE),), False, f"{LARGE} ranks: all are read"),
        (("8", str(LARGE + 1)), True, f"{LARGE + 1} ranks: those that the recording rules"),
        (("",), False, "told nothing"),
    ],
)
def test_the_rules_are_asked_where_they_know_a_large_run(sizes, push_down, why):
    chosen = choose(Rules(*sizes), "r", "1h", None)

    assert push_down == chosen.push_down
    assert why in chosen.why


def test_a_large_run_of_which_the_rules_know_no_own_time_is_read_whole():
    chosen = choose(Rules(str(LARGE + 1), known=0.0), "r", "1h", None)

    assert not chosen.push_down
    assert "the rules know no own time" in chosen.why
