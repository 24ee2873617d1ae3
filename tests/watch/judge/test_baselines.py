"""A run is compared with runs of its own workload only."""

import pytest

from lockstep.watch.settings import kind_of

GIVEN = {("gpt", 8): 2.0, ("gpt-large", 8): 1.0, ("mlp", 4): 5.0}


@pytest.mark.parametrize(
    ("run", "ranks", "kind"),
    [
        ("gpt-20261122T100000-a1b2", 8, ("gpt", 8)),
        ("gpt", 8, ("gpt", 8)),
        ("gpt_tuned", 8, ("gpt", 8)),
        ("gpt-large-20261122T100000-a1b2", 8, ("gpt-large", 8)),
        ("gpt-20261122T100000-a1b2", 4, None),
        ("gpt2-20261122T100000-a1b2", 8, None),
        ("not-gpt-20261122T100000-a1b2", 8, None),
        ("nanogpt", 8, None),
    ],
)
def test_the_workload_is_a_word_at_the_beginning_of_the_id(run, ranks, kind):
    assert kind == kind_of(run, ranks, GIVEN)
