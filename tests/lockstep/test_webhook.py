"""Who may tell of alerts, and what they hear."""

import json

import pytest

from analyzer.act.webhook import MAX_BYTES
from lockstep.output import CommandError
from lockstep.webhook import Webhook

BODY = json.dumps({"version": "4", "alerts": [], "truncatedAlerts": 3}).encode()


@pytest.fixture
def taken() -> list[object]:
    return []


@pytest.fixture
def guarded(tmp_path, taken) -> Webhook:
    (tmp_path / "token").write_text("pass word\n")
    return Webhook(lambda told: taken.append(told) is None, tmp_path / "token")


def counted(webhook: Webhook) -> dict[str, float]:
    return {" ".join(sample.labels): sample.value for sample in webhook.samples() if sample.value}


def test_a_notification_is_taken_and_what_was_left_out_of_it_is_said(taken, caplog) -> None:
    webhook = Webhook(lambda told: taken.append(told) is None, None)

    assert (200, "took 0 alerts") == webhook.answer(BODY, None)
    assert 1 == len(taken)
    assert {"accepted": 1, "": 3} == counted(webhook)
    assert "left 3 alerts out" in caplog.text


def test_what_is_wrong_is_refused_counted_and_logged(taken, caplog) -> None:
    webhook = Webhook(lambda told: taken.append(told) is None, None)

    assert (400, "alerts is missing; it must be a list") == webhook.answer(b'{"version":"4"}', None)
    assert 413 == webhook.answer(b"[" * (MAX_BYTES + 1), None)[0]
    assert [] == taken
    assert {"malformed": 1, "too_large": 1} == counted(webhook)
    assert "a webhook was not taken (400): alerts is missing" in caplog.text


def test_without_room_the_alertmanager_is_asked_to_try_again() -> None:
    webhook = Webhook(lambda told: False, None)

    assert 503 == webhook.answer(BODY, None)[0]
    assert {"busy": 1} == counted(webhook)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer pass", "Basic pass word", "Bearer ü"]
)
def test_whoever_does_not_know_the_token_is_not_heard(guarded, taken, header, caplog) -> None:
    assert 401 == guarded.answer(BODY, header)[0]
    assert [] == taken
    assert "pass" not in caplog.text


def test_the_token_may_be_renewed_and_is_asked_for_while_its_file_is_away(
    guarded, taken, tmp_path
) -> None:
    assert 200 == guarded.answer(BODY, "bearer pass word")[0]
    (tmp_path / "token").write_text("new")
    assert [401, 200] == [guarded.answer(BODY, f"Bearer {one}")[0] for one in ("pass word", "new")]
    (tmp_path / "token").unlink()
    assert [401, 401] == [guarded.answer(BODY, each)[0] for each in ("Bearer new", "Bearer ")]


def test_a_token_file_that_cannot_be_read_is_said_at_the_start(tmp_path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name in ("empty", "nowhere"):
        with pytest.raises(CommandError, match="cannot be read or is empty") as refused:
            Webhook(lambda told: True, tmp_path / name)
        assert 65 == refused.value.code
