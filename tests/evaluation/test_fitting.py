"""`lockstep fit`: from runs to the file; real runs calibrate, and only that."""

import json
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause, ExitCode
from lockstep.diagnose import diagnosis
from lockstep.evaluation import fitting
from lockstep.evaluation.scoring.examples import Example
from lockstep.evaluation.synth.fleet import Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled
from lockstep.terminal.output import CommandError

HEAT = {"thermal throttling: strong": 1.0, "excess in compute: strong": 1.0}
RUNS = 30


class HereAndNow:
    """A pool that works in this process."""

    def __init__(self, *_, **__):
        self.imap = map

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def judged(monkeypatch):
    """Every simulated run is a hot GPU; every archive what its name says; `broken` is a bug's."""
    seen = []

    def examples(one):
        seen.append(one)
        if isinstance(one, Path):
            return None if one.name == "broken" else [Example(one.name, "slow", True, HEAT)]
        return [Example("thermal", "slow", True, HEAT)]

    monkeypatch.setattr(fitting, "_examples", examples)
    pool = SimpleNamespace(Pool=HereAndNow)
    monkeypatch.setattr(fitting.multiprocessing, "get_context", lambda _: pool)
    return seen


def fitted(*settings):
    found = fitting.fitted(RUNS, 1_000_000, lambda *_: None, settings)
    return found.table, found.words, json.loads(found.table)


def setting(folder, *archives):
    for place, name in enumerate(archives):
        archive = folder / f"trial-{place}" / name
        archive.mkdir(parents=True)
        (archive / "truth.json").write_text('{"schema_version": 1, "faults": []}')
    return folder


def test_the_same_runs_give_the_same_bytes(judged, tmp_path):
    real = setting(tmp_path / "unpaced", "thermal", "power")

    assert fitted(real) == fitted(real)


def test_seeds_of_fit_and_calibration_are_apart_and_a_third_is_tidy(judged):
    fitted()
    fit, others = judged[:RUNS], judged[RUNS:]

    assert RUNS // 3 == len(others)
    assert not {one.seed for one in fit} & {one.seed for one in others}
    assert RUNS // 3 == sum(one.level == fitting.EASY for one in fit)
    assert all(one.injected for one in judged)


def test_a_setting_in_which_causes_are_wrong_makes_less_sure_and_moves_no_weight(judged, tmp_path):
    alone = fitted()[2]
    told = fitted(setting(tmp_path / "unpaced", "thermal", "power", "power"))[2]

    assert told["weights"] == alone["weights"]
    assert told["temperature"] > alone["temperature"]
    assert 3 == told["calibrated_on"]["unpaced"]


def test_the_file_has_no_path_of_the_machine(judged, tmp_path):
    text, words, _ = fitted(setting(tmp_path / "faults", "thermal"))

    assert str(tmp_path) not in text
    assert "faults: of 1 that it was not fitted on" in words


def test_an_archive_that_cannot_be_judged_is_told(judged, tmp_path):
    _, words, told = fitted(setting(tmp_path / "real", "thermal", "broken"))

    assert "1 of 42 runs could not be judged" in words
    assert 1 == told["calibrated_on"]["real"]


def test_a_folder_without_truth_or_two_of_one_name_are_refused(judged, tmp_path):
    with pytest.raises(CommandError, match="has no archive with truth") as empty:
        fitted(tmp_path)
    one, two = (setting(tmp_path / each / "real", "thermal") for each in "ab")
    with pytest.raises(CommandError, match="two settings are called real") as twice:
        fitted(one, two)

    assert (ExitCode.BAD_INPUT, ExitCode.USAGE) == (empty.value.code, twice.value.code)
    assert [] == judged


def test_examples_that_were_kept_calibrate_as_their_archives_did(judged, tmp_path):
    real = setting(tmp_path / "unpaced", "thermal", "power", "power")
    found = fitting.fitted(RUNS, 1_000_000, lambda *_: None, [real])
    lines = tmp_path / "unpaced.jsonl"
    lines.write_text(found.examples["unpaced"])

    assert found.table == fitted(lines)[0]
    assert [] == list(fitting.fitted(RUNS, 1_000_000, lambda *_: None, [lines]).examples)


@pytest.mark.parametrize(
    "line",
    ["", "[]", "{", '{"cause": "thermal"}',
     '{"cause": "link", "kind": "slow", "gpu": true, "states": {}}',
     '{"cause": "thermal", "kind": "slow", "gpu": false, "states": {}}',
     '{"cause": "witchcraft", "kind": "slow", "gpu": true, "states": {}}',
     '{"cause": "thermal", "kind": "slow", "gpu": true, "states": {"heat: strong": 2}}',
     '{"cause": "thermal", "kind": "slow", "gpu": true, "states": ["heat: strong"]}'],
)  # fmt: skip
def test_a_line_that_is_no_example_is_refused(judged, tmp_path, line):
    good = '{"cause": "thermal", "kind": "slow", "gpu": true, "states": {}}'
    (tmp_path / "real.jsonl").write_text(f"{good}\n{line}\n")

    with pytest.raises(CommandError, match=r"real.jsonl, line 2 is no example") as refused:
        fitted(tmp_path / "real.jsonl")
    assert ExitCode.BAD_INPUT == refused.value.code


def test_what_real_runs_showed_lies_beside_the_table(judged):
    """Paced and unpaced ones set how sure a verdict may be, as much as simulated ones do."""
    told = fitted(*fitting.kept())[2]["calibrated_on"]

    assert {"simulated", "real-paced", "real-unpaced"} == set(told)
    assert min(told.values()) > 0


def test_the_committed_table_is_calibrated_on_all_that_is_kept():
    table = json.loads(Path(files("lockstep.analyzer.causes") / "cause_weights.json").read_text())
    lines = {fitting.name_of(one): one.read_text().splitlines() for one in fitting.kept()}

    assert {"simulated", *lines} == set(table["calibrated_on"])
    assert {name: len(some) for name, some in lines.items()} == {
        name: table["calibrated_on"][name] for name in lines
    }


def test_a_setting_that_is_given_takes_the_place_of_the_kept_one_of_its_name(tmp_path):
    given = [tmp_path / "real-paced", tmp_path / "mine"]

    assert ["real-unpaced.jsonl", "real-paced", "mine"] == [
        one.name for one in fitting.with_kept(given)
    ]


def test_a_file_of_examples_that_is_not_there_or_is_empty_is_refused(judged, tmp_path):
    with pytest.raises(CommandError, match=r"real.jsonl cannot be read"):
        fitted(tmp_path / "real.jsonl")
    (tmp_path / "real.jsonl").write_text("")
    with pytest.raises(CommandError, match=r"real.jsonl has no example"):
        fitted(tmp_path / "real.jsonl")


def test_an_archive_teaches_by_its_truth(monkeypatch, tmp_path):
    """The finding of the rank that was made hot; a healthy run teaches nothing, a torn one is
    none."""
    fault = Fault(Cause.THERMAL, "hw", 2, 1.5, 80)
    run = labelled(SyntheticFleet(dp=8, steps=240, resolution=Resolution.STEP, faults=(fault,)))
    monkeypatch.setattr(diagnosis, "diagnose_archive", lambda _: diagnose(run.run))
    path = tmp_path / "truth.json"

    path.write_text(json.dumps({"schema_version": 1, "faults": list(run.truth)}))
    (found,) = fitting._examples(tmp_path)
    assert ("thermal", "slow", True) == (found.cause, found.kind, found.gpu)
    assert "thermal throttling: strong" in found.states
    path.write_text(json.dumps({"schema_version": 1, "faults": []}))
    assert [] == fitting._examples(tmp_path)
    path.write_text("{")
    assert fitting._examples(tmp_path) is None
