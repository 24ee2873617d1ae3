"""`lockstep cluster` on archives."""

import json
from pathlib import Path

import pandas as pd
import pytest

from lockstep.app import main
from lockstep.collector.contract import archive

TOPOLOGY = """
[leaf]
leaf-1 = ["a-0", "a-1", "a-2", "a-3", "b-0", "b-1", "b-2", "b-3"]
leaf-2 = ["c-0", "c-1", "c-2", "c-3"]
"""


@pytest.fixture
def slow(synthetic, tmp_path):
    """Two archives of runs in which all ranks became slower together."""
    return [
        str(synthetic(seed=seed, uniform=(100, 1.4)).write(tmp_path / f"run-{seed}"))
        for seed in (1, 2)
    ]


def _moved(folder, letter):
    """The archive as if its ranks had run on nodes of another letter."""
    ranks = pd.read_parquet(Path(folder) / archive.RANKS_FILE)
    ranks["node"] = ranks["node"].str.replace("node", letter)
    ranks.to_parquet(Path(folder) / archive.RANKS_FILE)
    return str(folder)


def test_two_slow_runs_on_one_leaf_name_it(slow, synthetic, tmp_path, capsys):
    path = tmp_path / "topology.toml"
    path.write_text(TOPOLOGY)
    runs = [*slow, synthetic(seed=3).write(tmp_path / "run-3")]
    runs = [_moved(each, letter) for each, letter in zip(runs, "abc", strict=True)]

    code = main(["cluster", *runs, "--topology", str(path), "-o", "json"])
    told = json.loads(capsys.readouterr().out)

    assert (2, "shared", {"kind": "leaf", "name": "leaf-1"}) == (
        code, told["status"], told["part"],
    )  # fmt: skip


def test_without_a_topology_it_is_unknown_and_says_what_is_missing(slow, capsys):
    code = main(["cluster", *slow])
    told = capsys.readouterr().out

    assert 3 == code
    assert "no topology" in told
    assert "slow together" in told


def test_one_archive_is_a_usage_error(slow):
    assert 64 == main(["cluster", slow[0]])


def test_a_topology_that_is_none_is_said_in_a_sentence(slow, tmp_path, capsys):
    path = tmp_path / "topology.toml"
    path.write_text("[hall]\nx = 1\n")

    assert 65 == main(["cluster", *slow, "--topology", str(path)])
    assert "[hall] is not one of the tables" in capsys.readouterr().err
