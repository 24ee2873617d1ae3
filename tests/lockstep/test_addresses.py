"""Where texts of alerts point to, by the environment."""

import pytest

from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses
from lockstep.terminal.output import CommandError
from lockstep.watch.serve.pages import addresses


def test_the_environment_says_where_and_a_slash_at_the_end_is_none() -> None:
    told = {
        "LOCKSTEP_RUNBOOKS_URL": "https://wiki/r/",
        "LOCKSTEP_DASHBOARD_URL": "http://d:8501",
        "LOCKSTEP_GRAFANA_URL": "http://g:3000/d",
    }

    where = Addresses(
        runbooks="https://wiki/r", dashboard="http://d:8501", grafana="http://g:3000/d"
    )
    assert where == addresses(told)


def test_placeholders_stand_for_what_it_does_not_say() -> None:
    assert PLACEHOLDERS == addresses({"LOCKSTEP_RUNBOOKS_URL": ""})


@pytest.mark.parametrize(
    "wrong", ["wiki/r", "ftp://wiki/r", "https://", "https://wiki/{{ .x }}", "https://w/?a=b", "\n"]
)
def test_what_no_name_can_be_put_after_is_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="LOCKSTEP_RUNBOOKS_URL is") as refused:
        addresses({"LOCKSTEP_RUNBOOKS_URL": wrong})

    assert 64 == refused.value.code


@pytest.mark.parametrize("what", ["WATCH", "PROMETHEUS", "RUNBOOKS", "DASHBOARD", "GRAFANA"])
@pytest.mark.parametrize("who", ["me:S3CR3T@", "S3CR3T@", "me:S3CR3T?@"])
def test_links_are_sent_to_people_without_name_and_password(what: str, who: str) -> None:
    with pytest.raises(CommandError, match="without name and password") as refused:
        addresses({f"LOCKSTEP_{what}_URL": f"https://{who}host/path"})

    assert 64 == refused.value.code
    assert "S3CR3T" not in str(refused.value)


def test_an_at_in_the_path_is_no_name() -> None:
    told = addresses({"LOCKSTEP_RUNBOOKS_URL": "https://wiki/@team/r"})

    assert "https://wiki/@team/r" == told.runbooks


def test_watch_refuses_them_before_it_looks_at_anything(lockstep, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_RUNBOOKS_URL", "wiki")
    answer = lockstep("watch", "--prometheus", "nowhere")

    assert (64, "") == (answer.code, answer.out)
    assert "LOCKSTEP_RUNBOOKS_URL is 'wiki'; it must be an http:// or https://" in answer.err
