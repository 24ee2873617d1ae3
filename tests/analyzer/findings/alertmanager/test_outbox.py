"""What an Alertmanager is owed: all that fires, again and again; an end once; nothing silently."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.alertmanager.outbox import (
    LAST_PAUSE_SECONDS,
    LATE_SECONDS,
    MAX_ALERTS,
    OWED_SECONDS,
    RESEND_SECONDS,
    Outbox,
    Owed,
)
from lockstep.analyzer.findings.alertmanager.posting import FIRING_SECONDS, Alert, Key

NAMES = ("node-0", "node-1", "node-2")


def named(node: str) -> Alert:
    return Alert({"node": node}, {}, 0.0)


def names(owed: tuple[Owed, ...]) -> list[tuple[str, float | None]]:
    return [(one.alert.labels["node"], one.over) for one in owed]


def test_what_fires_is_sent_again_every_minute(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.taken(box.due(0.0), 0.0)

    assert () == box.due(RESEND_SECONDS - 0.1)
    assert RESEND_SECONDS == box.seconds(0.0)
    assert [("node-3", None)] == names(box.due(RESEND_SECONDS))


def test_what_is_no_more_wanted_is_ended_once(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.taken(box.due(0.0), 0.0)
    box.want([], 70.0, 75.0)
    ended = box.due(70.0)
    box.taken(ended, 70.0)

    assert [("node-3", 75.0)] == names(ended)
    assert () == box.due(1000.0)
    assert None is box.seconds(1000.0)


def test_an_end_is_owed_until_it_is_taken_for_people_may_have_heard_of_its_beginning(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.taken(box.due(0.0), 0.0)
    box.want([], 70.0, 75.0)
    box.failed(box.due(70.0), 70.0)
    box.want([], 3600.0, 0.0)

    assert [("node-3", 75.0)] == names(box.due(3600.0))
    box.want([], 70.0 + OWED_SECONDS, 0.0)
    assert () == box.due(70.0 + OWED_SECONDS)


def test_pauses_between_tries_double_up_to_half_a_minute(alert) -> None:
    box, now, pauses = Outbox(), 0.0, []
    box.want([alert()], 0.0, 5.0)
    for _ in range(7):
        pauses.append(box.failed(box.due(now), now))
        assert () == box.due(now + 0.9 * pauses[-1])
        now += pauses[-1]
        assert [("node-3", None)] == names(box.due(now))

    assert [1.0, 2.0, 4.0, 8.0, 16.0, LAST_PAUSE_SECONDS, LAST_PAUSE_SECONDS] == pauses


def test_an_alert_that_is_over_before_it_was_taken_is_told_late_and_then_its_end(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.failed(box.due(0.0), 0.0)

    assert (alert(),) == box.want([], 1.0, 6.0)
    late = box.due(100.0)
    assert [("node-3", None)] == names(late)
    box.taken(late, 100.0)
    assert ((), LATE_SECONDS) == (box.due(100.0), box.seconds(100.0))
    assert [("node-3", 6.0)] == names(box.due(100.0 + LATE_SECONDS))


def test_who_took_an_alert_is_told_of_its_end_once_its_groups_have_told_of_the_beginning(
    alert,
) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.taken(box.due(20.0), 20.0)
    box.want([], 24.0, 29.0)

    assert ((), LATE_SECONDS - 4.0) == (box.due(24.0), box.seconds(24.0))
    assert [("node-3", 29.0)] == names(box.due(20.0 + LATE_SECONDS))


def test_what_is_replaced_ends_with_the_first_word_of_the_other() -> None:
    box, other = Outbox(), named("node-1")
    box.want([named("node-0")], 0.0, 5.0)
    box.taken(box.due(0.0), 0.0)
    box.want([other], 20.0, 25.0, [replace(named("node-0"), is_replaced=True)])

    assert [("node-1", None), ("node-0", 25.0)] == names(box.due(20.0))


def test_the_end_of_what_was_told_for_long_is_told_at_once(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.taken(box.due(0.0), 0.0)
    box.taken(box.due(RESEND_SECONDS), RESEND_SECONDS)  # groups wait from the first on
    box.want([], RESEND_SECONDS + 1.0, 66.0)

    assert [("node-3", 66.0)] == names(box.due(RESEND_SECONDS + 1.0))


def test_an_end_has_the_last_words_of_its_finding(alert) -> None:
    box, last = Outbox(), Alert({"node": "node-3"}, {"summary": "It is over."}, 0.0)
    box.want([named("node-3")], 0.0, 5.0)
    box.taken(box.due(0.0), 0.0)
    box.want([], 10.0, 15.0, [last])

    assert [last] == [one.alert for one in box.due(LATE_SECONDS)]


def test_what_ended_before_this_process_began_is_told_again_unless_it_fires(alert) -> None:
    box = Outbox()
    box.want([named("node-0")], 0.0, 5.0)
    box.ended([(named("node-0"), 3.0), (named("node-1"), 4.0)], 0.0)

    assert [("node-0", None)] == names(box.due(0.0))
    assert [("node-0", None), ("node-1", 4.0)] == names(box.due(LATE_SECONDS))


def test_what_an_earlier_process_could_not_deliver_is_told_late_and_the_rest_ended() -> None:
    before = Outbox()
    before.want([named("node-0"), named("node-1")], 0.0, 5.0)
    before.taken(before.due(0.0)[:1], 0.0)
    box = Outbox()
    box.remember(before.marks, 0.0)
    box.ended([(named("node-0"), 3.0), (named("node-1"), 4.0)], 0.0)
    sent = box.due(0.0)

    assert [("node-1", None)] == names(sent)
    box.taken(sent, 0.0)
    assert {("node-0", 3.0), ("node-1", 4.0)} == set(names(box.due(LATE_SECONDS)))
    assert {named("node-0").mark, named("node-1").mark} == box.marks


def test_an_end_that_was_told_is_not_told_late_by_the_process_after_the_next() -> None:
    first = Outbox()  # of a state that does not say what was taken, as an older version's
    first.ended([(named("node-0"), 10.0)], 0.0)
    first.taken(first.due(LATE_SECONDS), LATE_SECONDS)
    second = Outbox()
    second.remember(first.marks, 0.0)
    second.ended([(named("node-0"), 10.0)], 0.0)

    assert [("node-0", 10.0)] == names(second.due(LATE_SECONDS))


def test_what_was_taken_only_once_it_was_over_is_not_told_late_after_a_restart() -> None:
    first = Outbox()
    first.want([named("node-0")], 0.0, 5.0)
    sent = first.due(0.0)
    first.asking(sent)
    first.want([], 1.0, 6.0)
    first.taken(sent, 1.5)
    second = Outbox()
    second.remember(first.marks, 0.0)
    second.ended([(named("node-0"), 6.0)], 0.0)

    assert [("node-0", 6.0)] == names(second.due(LATE_SECONDS))


def test_of_an_alert_that_another_replaced_the_end_is_told_and_never_that_it_fired() -> None:
    box = Outbox()
    box.remember([named("node-0").mark], 0.0)
    box.ended([(named("node-0"), 3.0), (named("node-1"), 4.0)], 0.0, late=False)

    assert [("node-0", 3.0), ("node-1", 4.0)] == names(box.due(0.0))


def test_what_an_earlier_process_delivered_and_is_over_at_the_first_look_is_ended() -> None:
    box = Outbox()
    box.remember([named("node-0").mark], 0.0)
    box.want([named("node-0")], 0.0, 5.0)

    assert () == box.want([], 1.0, 6.0)
    assert [("node-0", 6.0)] == names(box.due(LATE_SECONDS))
    box.want([], 1.0 + OWED_SECONDS, 7.0)
    assert frozenset() == box.marks


def test_what_ends_while_it_is_asked_for_is_ended_once_it_is_taken(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 100.0)
    sent = box.due(0.0)
    box.asking(sent)

    assert () == box.want([], 0.1, 100.1)
    box.taken(sent, 0.2)
    assert () == box.due(0.2)
    assert [100.1] == [each.over for each in box.due(0.1 + LATE_SECONDS)]


def test_an_alert_that_was_refused_is_tried_again_when_it_would_be_sent_again(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.refused(box.due(0.0)[0], 0.0)

    assert () == box.due(RESEND_SECONDS - 1)
    assert [("node-3", None)] == names(box.due(RESEND_SECONDS))
    assert (1, 0) == (box.undelivered(120.0), box.undelivered(119.0))


def test_an_alert_that_was_refused_and_is_over_is_tried_once_a_minute(alert) -> None:
    box = Outbox()
    box.want([alert()], 0.0, 5.0)
    box.refused(box.due(0.0)[0], 0.0)
    box.want([], 30.0, 35.0)

    assert ((), RESEND_SECONDS - 30.0) == (box.due(30.0), box.seconds(30.0))
    box.refused(box.due(RESEND_SECONDS)[0], RESEND_SECONDS)
    assert ((), RESEND_SECONDS) == (box.due(RESEND_SECONDS), box.seconds(RESEND_SECONDS))
    assert [("node-3", None)] == names(box.due(2 * RESEND_SECONDS))


def test_what_was_refused_is_sent_after_the_others(alert) -> None:
    box = Outbox()
    box.want([alert("node-1"), alert("node-2")], 0.0, 5.0)
    first, second = box.due(0.0)
    box.refused(first, 0.0)
    box.taken([second], 0.0)

    again = box.due(RESEND_SECONDS)
    assert [("node-2", None)] == names(again)
    box.taken(again, RESEND_SECONDS)
    assert [("node-1", None)] == names(box.due(RESEND_SECONDS))


def test_what_was_taken_lately_is_not_undelivered(alert) -> None:
    box = Outbox()
    box.want([alert("node-1"), alert("node-2")], 0.0, 5.0)
    box.taken(box.due(0.0)[:1], 100.0)

    assert 1 == box.undelivered(200.0)


def test_no_more_than_a_bound_is_remembered(alert) -> None:
    box = Outbox()
    box.want([named(f"node-{number}") for number in range(MAX_ALERTS + 5)], 0.0, 5.0)

    assert MAX_ALERTS == len(box.due(0.0))


@dataclass
class Alertmanager:
    """What one would believe, as its API does: an alert fires until its end."""

    until: dict[Key, float] = field(default_factory=dict)

    def hear(self, sent: tuple[Owed, ...], now: float) -> None:
        for one in sent:
            self.until[one.alert.key] = now + FIRING_SECONDS if one.over is None else now

    def firing(self, now: float) -> set[str]:
        return {dict(key)["node"] for key, until in self.until.items() if until > now}


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(NAMES)), st.sampled_from(["taken", "failed", "lost"]),
                  st.floats(0.1, 400.0)),
        max_size=30,
    )
)  # fmt: skip
def test_whatever_failed_before_an_alertmanager_that_answers_believes_what_is_so(rounds) -> None:
    box, believed, now = Outbox(), Alertmanager(), 0.0
    for wanted, becomes, pause in [*rounds, (set(NAMES[:1]), "taken", 0.0)]:
        now += pause
        box.want([named(each) for each in sorted(wanted)], now, now)
        if becomes == "taken":
            now += box.seconds(now) or 0.0
        sent = box.due(now)
        if becomes in ("taken", "lost"):  # lost: it heard, and its answer did not arrive
            believed.hear(sent, now)
        if becomes == "taken":
            box.taken(sent, now)
        elif sent:
            box.failed(sent, now)

    for _ in range(3):  # what was over before it was taken fires for a moment
        now += LATE_SECONDS
        sent = box.due(now)
        believed.hear(sent, now)
        box.taken(sent, now)
    assert {NAMES[0]} == believed.firing(now)
