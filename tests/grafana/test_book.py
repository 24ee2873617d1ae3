"""The committed files, the command that makes them, and the numbers that the README states."""

import json
import sys

import pytest

from lockstep.grafana import __main__ as command
from lockstep.grafana.book import FOLDER, book, counts, shared, stale, text
from lockstep.grafana.settings import Settings


@pytest.fixture
def run(monkeypatch):
    def call(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["grafana", *words])
        return command.main()

    return call


def test_the_committed_files_are_what_is_generated():
    assert [] == stale(FOLDER, book())


def test_every_panel_has_description_unit_and_link_and_none_is_legacy():
    told = counts(book())

    assert ["cluster", "home", "nccl", "node", "run", "self", "straggler"] == sorted(
        name.removeprefix("lockstep-").removesuffix(".json") for name in told
    )
    assert [] == [name for name, one in told.items() if set(one[:4]) != {one[0]} or one[4]]


def test_the_check_prints_the_numbers_and_names_what_is_stale(run, tmp_path, capsys):
    assert 0 == run("--check")
    assert "lockstep-run.json: 20 panels, 20 with description" in capsys.readouterr().out

    assert 0 == run("--out", str(tmp_path))
    (tmp_path / "lockstep-run.json").write_text("{}")

    assert 1 == run("--check", "--out", str(tmp_path))
    assert "not what is generated: lockstep-run.json;" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(run, tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert 1 == run("--out", str(tmp_path / "file"))
    assert capsys.readouterr().err.endswith("cannot be written: File exists\n")


def test_an_operator_chooses_address_and_clock(run, tmp_path):
    address = "https://lockstep.example/"
    assert 0 == run("--out", str(tmp_path), "--streamlit-url", address, "--timezone", "utc")
    board = json.loads((tmp_path / "lockstep-home.json").read_text())
    [constant] = [one for one in board["templating"]["list"] if one["name"] == "streamlit_url"]

    assert ("https://lockstep.example", "utc") == (constant["query"], board["timezone"])


def test_the_shared_form_asks_for_the_address_and_names_its_panels(run, tmp_path):
    assert 0 == run("--out", str(tmp_path / "own"), "--export", str(tmp_path / "shared"))
    made = json.loads((tmp_path / "shared" / "lockstep-run.json").read_text())
    kinds = {one["id"] for one in made["__requires"] if one["type"] == "panel"}

    assert kinds == {panel["type"] for panel in made["panels"]}
    assert ["VAR_STREAMLIT_URL"] == [one["name"] for one in made["__inputs"]]
    assert Settings().streamlit_url not in text(made["templating"])
    assert made == json.loads(text(shared(book()["lockstep-run.json"])))
