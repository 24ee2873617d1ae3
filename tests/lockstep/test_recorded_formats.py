"""`lockstep run --record` and `lockstep analyze` of what others wrote, at the command line."""

import json
from pathlib import Path

import pytest

from lockstep.app import main
from lockstep.collector.contract.words import ExitCode
from tests.analyzer.read.collectives.test_inspector import job, written


def analyzed(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["analyze", str(folder), "--no-write", "-o", "json"])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_folder_of_inspectors_files_is_judged(tmp_path: Path, capsys):
    code, out, _ = analyzed(written(tmp_path, job()), capsys)

    assert code == ExitCode.CULPRIT
    assert [one["rank"] for one in json.loads(out)["culprits"]] == [2]


def test_a_healthy_one_exits_0(tmp_path: Path, capsys):
    assert analyzed(written(tmp_path, job(slow=None)), capsys)[0] == ExitCode.OK


def test_who_sent_to_whom_is_a_table_of_its_own(tmp_path: Path, capsys):
    folder, table = written(tmp_path / "inspector", job()), tmp_path / "transfers.csv"

    assert main(["analyze", str(folder), "--no-write", "--transfers", str(table)]) == 2
    assert table.read_text().startswith("communicator,group,source,destination,transfers")


def test_transfers_without_a_folder_are_refused(tmp_path: Path, capsys):
    table = str(tmp_path / "transfers.csv")

    assert main(["analyze", "--transfers", table]) == ExitCode.USAGE
    assert "goes with the folder" in capsys.readouterr().err


def test_an_empty_folder_is_refused_in_a_sentence(tmp_path: Path, capsys):
    code, out, err = analyzed(tmp_path, capsys)

    assert (code, out) == (ExitCode.BAD_INPUT, "")
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["gpt", "--record", "inspektor"], "did you mean inspector?"),
        (["logreg", "--record", "inspector"], "gpt and resnet"),
    ],
)
def test_a_wrong_format_is_refused_before_anything_starts(tmp_path: Path, capsys, words, why):
    code = main(["run", *words, "--out", str(tmp_path / "run")])

    assert code == ExitCode.USAGE
    assert why in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.distributed
@pytest.mark.slow
def test_a_real_run_is_judged_alike_by_each_source_alone(tmp_path: Path, capsys):
    archive = tmp_path / "run"
    # The fault is large, because other tests may be using the same cores.
    words = ["--steps", "150", "--fault", "thermal:rank=2,factor=3", "--no-verdict"]
    formats = ["--record", "inspector", "--record", "flight-recorder"]

    assert main(["run", "gpt", *words, *formats, "--out", str(archive)]) == 0
    capsys.readouterr()
    for folder in (archive, archive / "nccl-inspector", archive / "flight-recorder"):
        code, out, _ = analyzed(folder, capsys)
        assert (code, [one["rank"] for one in json.loads(out)["culprits"]]) == (2, [2])
