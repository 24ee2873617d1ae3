"""`lockstep cluster` on archives."""

import json

import pytest

from lockstep.cli import main

TOPOLOGY = """
[leaf]
leaf-1 = ["node-0", "node-1", "node-2", "node-3"]
"""


@pytest.fixture
def slow(synthetic, tmp_path):
    """Two archives of runs in which all ranks became slower together."""
    return [
        str(synthetic(seed=seed, uniform=(100, 1.4)).write(tmp_path / f"run-{seed}"))
        for seed in (1, 2)
    ]


def test_two_slow_runs_on_one_leaf_name_it(slow, tmp_path, capsys):
    path = tmp_path / "topology.toml"
    path.write_text(TOPOLOGY)

    code = main(["cluster", *slow, "--topology", str(path), "-o", "json"])
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
