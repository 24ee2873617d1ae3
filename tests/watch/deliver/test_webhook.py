"""Who may tell of alerts, and what they hear."""

import json
import stat
from email.message import Message
from http import HTTPStatus

import pytest

from lockstep.analyzer.findings.alertmanager.webhook import MAX_BYTES
from lockstep.terminal.output import CommandError
from lockstep.watch.deliver.webhook import (
    TOKEN_FILE,
    Webhook,
    ensure_token_file,
    read_token,
)

BODY = json.dumps({"version": "4", "alerts": [], "truncatedAlerts": 3}).encode()


@pytest.fixture
def taken() -> list[object]:
    return []


@pytest.fixture
def guarded(tmp_path, taken) -> Webhook:
    (tmp_path / "token").write_text("pass word\n")
    return Webhook(lambda told: taken.append(told) is None, tmp_path / "token")


def headers(authorization: str | None = "Bearer pass word", **more: str) -> Message:
    """Of a request as an Alertmanager sends it."""
    made = Message()
    told = {"Host": "localhost:9411", "Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in more.items()
    }
    for name, value in told.items():
        made[name] = value
    if authorization is not None:
        made["Authorization"] = authorization
    return made


def status(webhook: Webhook, authorization: str | None) -> int:
    refused = webhook.admit(headers(authorization))
    return 200 if refused is None else refused[0].value


def counted(webhook: Webhook) -> dict[str, float]:
    return {" ".join(sample.labels): sample.value for sample in webhook.samples() if sample.value}


def test_a_notification_is_taken_and_what_was_left_out_of_it_is_said(
    guarded, taken, caplog
) -> None:
    webhook = guarded

    assert (200, "took 0 alerts") == webhook.answer(BODY)
    assert 1 == len(taken)
    assert {"accepted": 1, "": 3} == counted(webhook)
    assert "left 3 alerts out" in caplog.text


def test_what_is_wrong_is_refused_counted_and_logged(guarded, taken, caplog) -> None:
    webhook = guarded

    assert (400, "alerts is missing; it must be a list") == webhook.answer(b'{"version":"4"}')
    assert 413 == webhook.answer(b"[" * (MAX_BYTES + 1))[0]
    assert [] == taken
    assert {"malformed": 1, "too_large": 1} == counted(webhook)
    assert "a webhook was not taken (400): alerts is missing" in caplog.text


def test_without_room_the_alertmanager_is_asked_to_try_again(tmp_path) -> None:
    webhook = Webhook(lambda told: False, ensure_token_file(tmp_path))

    assert 503 == webhook.answer(BODY)[0]
    assert {"busy": 1} == counted(webhook)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer pass", "Basic pass word", "Bearer ü"]
)
def test_whoever_does_not_know_the_token_is_not_heard(guarded, taken, header, caplog) -> None:
    assert 401 == status(guarded, header)
    assert [] == taken
    assert "pass" not in caplog.text


def test_the_token_may_be_renewed_and_is_asked_for_while_its_file_is_away(
    guarded, taken, tmp_path
) -> None:
    assert 200 == status(guarded, "bearer pass word")
    (tmp_path / "token").write_text("new")
    assert [401, 200] == [status(guarded, f"Bearer {one}") for one in ("pass word", "new")]
    (tmp_path / "token").unlink()
    assert [401, 401] == [status(guarded, each) for each in ("Bearer new", "Bearer ")]


def test_a_token_file_that_cannot_be_read_is_said_at_the_start(tmp_path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name in ("empty", "nowhere"):
        with pytest.raises(CommandError, match="cannot be read or is empty") as refused:
            Webhook(lambda told: True, tmp_path / name)
        assert 65 == refused.value.code


@pytest.mark.parametrize(
    ("expected", "more"),
    [
        (200, {}),
        (200, {"Content_Type": "application/json; charset=utf-8"}),
        (200, {"Origin": "http://localhost:9411", "Sec_Fetch_Site": "same-origin"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://localhost:9412"}),
        (403, {"Origin": "http://[::1"}),
        (403, {"Sec_Fetch_Site": "cross-site"}),
        (403, {"Sec_Fetch_Site": "same-site"}),
        (415, {"Content_Type": "text/plain"}),
        (415, {"Content_Type": ""}),
        (415, {"Content_Type": "application/x-www-form-urlencoded"}),
        (415, {"Content_Type": "text/plain, application/json"}),
    ],
)
def test_what_a_page_of_others_sends_is_refused_even_with_the_token(
    guarded, expected, more
) -> None:
    refused = guarded.admit(headers(**more))

    assert expected == (200 if refused is None else refused[0])
    assert ({} if expected == 200 else {"foreign": 1}) == counted(guarded)


def test_the_token_is_made_once_and_for_its_owner_only(tmp_path, caplog) -> None:
    path = ensure_token_file(tmp_path)
    token = read_token(path)

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 43 == len(token or b"")
    assert str(path) in caplog.text
    assert token.decode() not in caplog.text
    assert token == read_token(ensure_token_file(tmp_path))
    assert [path] == list(tmp_path.iterdir())


def test_a_token_that_an_earlier_start_could_not_write_whole_is_made_anew(tmp_path) -> None:
    (tmp_path / TOKEN_FILE).touch()

    assert read_token(ensure_token_file(tmp_path))


def test_a_token_that_cannot_be_read_is_not_replaced(tmp_path) -> None:
    (tmp_path / TOKEN_FILE).symlink_to(TOKEN_FILE)  # ELOOP, also for root

    with pytest.raises(CommandError, match="cannot be read") as refused:
        ensure_token_file(tmp_path)
    assert 69 == refused.value.code
    assert (tmp_path / TOKEN_FILE).is_symlink()


def test_while_the_token_cannot_be_read_nobody_is_let_in(tmp_path) -> None:
    path = ensure_token_file(tmp_path)
    token = (read_token(path) or b"").decode()
    webhook = Webhook(lambda told: True, path)
    known = headers(f"Bearer {token}")
    assert webhook.admit(known) is None
    path.unlink()
    path.symlink_to(path.name)

    assert HTTPStatus.UNAUTHORIZED == (webhook.admit(known) or [None])[0]


def test_a_folder_that_takes_no_token_ends_the_start(tmp_path) -> None:
    with pytest.raises(CommandError, match="cannot be written") as refused:
        ensure_token_file(tmp_path / "nowhere")
    assert 69 == refused.value.code


@pytest.mark.parametrize("digits", [10, 400, 4000, 5000])
def test_a_number_that_no_reader_of_the_page_could_read_is_refused(guarded, digits) -> None:
    body = b'{"version":"4","alerts":[],"truncatedAlerts":1%s}' % (b"0" * digits)

    assert 400 == guarded.answer(body)[0]
    assert {"malformed": 1} == counted(guarded)
