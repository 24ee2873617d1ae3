"""Who acts: one process at a time, and the next one once nobody renews the lease."""

from typing import Any

from lockstep.collector.contract.kubernetes import BREAKER
from lockstep.watch.kubernetes.election import ObservedLease, Term, term_of
from lockstep.watch.kubernetes.shapes import Breaker

SECONDS = 15.0
OPEN = Breaker(True, 50.0, "why")


def _lease(holder: str, renewed: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": "7", "annotations": annotations},
        "spec": {"holderIdentity": holder, "renewTime": renewed},
    }


def _look(lease: dict[str, Any] | None, seen: ObservedLease, monotonic: float) -> Term:
    return term_of(lease, "lease", "me", seen, OPEN, SECONDS, monotonic, 1000.0 + monotonic)


def test_without_a_lease_it_is_created_with_the_breaker_in_it() -> None:
    found = _look(None, ObservedLease(), 0.0)

    assert found.body is not None
    assert found.body is not None
    assert '"open": true' in found.body["metadata"]["annotations"][BREAKER]


def test_a_lease_that_nobody_renews_is_taken_over_after_its_duration() -> None:
    seen, leads = ObservedLease(), []
    for monotonic in (100.0, 107.0, 114.9, 115.0):
        found = _look(_lease("dead", "long ago"), seen, monotonic)
        seen = found.seen
        leads.append(found.body is not None)

    assert [False, False, False, True] == leads


def test_a_lease_that_is_renewed_is_never_taken_over() -> None:
    seen = ObservedLease()
    for monotonic in range(100, 200, 10):
        found = _look(_lease("alive", f"moment {monotonic}"), seen, float(monotonic))
        seen = found.seen
        assert found.body is None


def test_one_that_was_released_is_free_at_once() -> None:
    assert _look(_lease("", "now"), ObservedLease(), 0.0).body is not None


def test_what_is_written_rests_on_the_version_that_was_read() -> None:
    body = _look(_lease("me", "now"), ObservedLease(), 0.0).body

    assert body is not None
    assert "7" == body["metadata"]["resourceVersion"]
