"""`lockstep rules`: the rule file on stdout, and whether a file is it."""

from pathlib import Path

FILE = Path(__file__).parents[2] / "deploy" / "rules" / "lockstep-peers.rules.yml"


def test_the_rules_are_those_of_the_committed_file(lockstep):
    answer = lockstep("rules")

    assert (0, FILE.read_text()) == (answer.code, answer.out)


def test_a_file_that_is_up_to_date_is_silence(lockstep):
    answer = lockstep("rules", "--check", FILE)

    assert (0, "", "") == (answer.code, answer.out, answer.err)


def test_a_file_that_is_not_is_bad_input(lockstep, tmp_path):
    old = tmp_path / "old.yml"
    old.write_text("groups: []\n")
    answer = lockstep("rules", "--check", old)

    assert (65, "") == (answer.code, answer.out)
    assert "is not what this version generates; renew it with `lockstep rules`" in answer.err


def test_a_file_that_is_not_there_is_bad_input(lockstep, tmp_path):
    answer = lockstep("rules", "--check", tmp_path / "none.yml")

    assert 65 == answer.code
    assert "cannot be read" in answer.err


def test_a_read_through_the_rules_goes_with_a_prometheus(lockstep):
    answer = lockstep("analyze", "runs/x", "--push-down")

    assert (64, "") == (answer.code, answer.out)
    assert "--push-down goes with --prometheus URL" in answer.err
