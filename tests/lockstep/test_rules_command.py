"""`lockstep rules`: the rule file on stdout, and whether a file is it."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "deploy" / "rules"
FILE = FOLDER / "lockstep-peers.rules.yml"


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


def test_all_rule_files_are_written_and_checked_by_folder(lockstep, tmp_path):
    written = lockstep("rules", "--out", tmp_path / "new" / "rules")
    checked = lockstep("rules", "--check", tmp_path / "new" / "rules")

    assert (0, "") == (written.code, written.err)
    assert (0, "", "") == (checked.code, checked.out, checked.err)
    assert {path.name for path in FOLDER.glob("*.yml")} == {
        path.name for path in (tmp_path / "new" / "rules").iterdir()
    }


def test_a_folder_with_an_old_or_missing_file_is_bad_input_and_names_it(lockstep, tmp_path):
    lockstep("rules", "--out", tmp_path)
    (tmp_path / "lockstep-alerts.rules.yml").write_text("groups: []\n")
    (tmp_path / "lockstep-peers.prometheusrule.yaml").unlink()
    answer = lockstep("rules", "--check", tmp_path)

    assert 65 == answer.code
    assert "lockstep-alerts.rules.yml" in answer.err
    assert "lockstep-peers.prometheusrule.yaml" in answer.err
    assert "lockstep-alerts.prometheusrule.yaml" not in answer.err


def test_a_folder_that_cannot_be_written_is_bad_input(lockstep, tmp_path):
    (tmp_path / "file").write_text("")
    answer = lockstep("rules", "--out", tmp_path / "file")

    assert (65, "") == (answer.code, answer.out)
    assert "cannot be written" in answer.err


def test_writing_and_checking_exclude_each_other(lockstep, tmp_path):
    assert 64 == lockstep("rules", "--out", tmp_path, "--check", FILE).code


def test_alerts_point_to_the_addresses_of_the_environment_and_a_check_too(
    lockstep, tmp_path, monkeypatch
):
    monkeypatch.setenv("LOCKSTEP_RUNBOOKS_URL", "https://wiki.example/r")
    monkeypatch.setenv("LOCKSTEP_GRAFANA_URL", "https://grafana.example/d/")
    monkeypatch.setenv("LOCKSTEP_DASHBOARD_URL", "https://watch.example/")
    lockstep("rules", "--out", tmp_path)
    checked = lockstep("rules", "--check", tmp_path)
    one = lockstep("rules", "--check", tmp_path / "lockstep-alerts.rules.yml")
    monkeypatch.delenv("LOCKSTEP_RUNBOOKS_URL")
    elsewhere = lockstep("rules", "--check", tmp_path)
    text = (tmp_path / "lockstep-alerts.rules.yml").read_text()

    assert (0, 0, 65) == (checked.code, one.code, elsewhere.code)
    assert '"https://wiki.example/r/LockstepGpuLost.md"' in text
    assert '"https://grafana.example/d/lockstep-node?var-node=' in text
    assert '"https://watch.example/node?node=' in text
    assert "lockstep.example" not in text


def test_an_address_that_is_none_is_a_usage_error(lockstep, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_GRAFANA_URL", "grafana")
    answer = lockstep("rules", "--out", tmp_path / "new")

    assert (64, "") == (answer.code, answer.out)
    assert "LOCKSTEP_GRAFANA_URL is 'grafana'" in answer.err
    assert not (tmp_path / "new").exists()
