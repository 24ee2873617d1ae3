"""The file of a benchmark: what is wrong with it is one sentence that names the key."""

from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import processes
from lockstep.bench.plan import cells, steps
from lockstep.bench.spec import Bench, BenchError, parse, read

GPT: dict[str, Any] = {"bench": {"name": "n"}, "workloads": {"gpt": {"steps": 40}}}
OURS = ("lockstep",)


def spec(**given: Any) -> Bench:
    return parse({**GPT, **given})


def commands(bench: Bench, out: str = "/o") -> dict[str, tuple[str, ...]]:
    return {each.name: each.command
            for each in steps(bench, cells(bench)[0], Path(out), 0, OURS)}  # fmt: skip


def test_a_matrix_is_every_combination_once_before_any_is_repeated() -> None:
    bench = spec(
        bench={"name": "n", "repeats": 2},
        workloads={"gpt": {}, "small": {"workload": "gpt", "model": "small"}},
        matrix={"nodes": [1, 2], "settings": [{}, {"learning_rate": 0.1}]},
    )
    found = cells(bench)

    assert 16 == len(found)
    assert [0] * 8 + [1] * 8 == [each.repeat for each in found]
    assert 8 == len({each.name for each in found})
    assert "small,nodes=2,s1-learning-rate=0.1" in {each.name for each in found}


def test_the_two_tiers_become_the_words_of_lockstep_run() -> None:
    bench = spec(
        bench={"name": "n", "launcher": "kubernetes", "timeout": 90, "options": {"claim": "c"}},
        workloads={"gpt": {"steps": 40, "recompute": True, "fault": ["a", "b"]}},
        matrix={"nodes": [2], "ranks_per_node": [2], "layouts": [{"tp": 2}], "images": ["r/i:1"]},
    )

    assert (
        "lockstep run gpt --nodes 2 --ranks-per-node 2 --dp 2 --tp 2 --pp 1 --launcher kubernetes"
        " --no-verdict --claim c --steps 40 --recompute --fault a --fault b --image r/i:1"
        " --timeout 90 --measure --out /o/cells/gpt/0/archive-0 -o jsonl"
    ) == " ".join(commands(bench)["launch"])


def test_a_program_of_yours_keeps_its_words_as_they_are() -> None:
    bench = spec(workloads={"mine": {"command": ["python", "-c", "print({1: 2})"]}})
    launch = commands(bench)["launch"]

    assert ("--exec", "--", "python", "-c", "print({1: 2})") == launch[-5:]


def test_a_step_that_calls_our_rank_by_its_module_of_0_1_still_does() -> None:
    words = ["srun", "python", "-m", "workloads", "workloads", "{folder}/job.json"]
    bench = spec(steps=[{"name": "launch", "command": words}])

    assert ("srun", "python", "-m", "lockstep.workloads", "workloads") == (
        commands(bench)["launch"][:5]
    )


def test_a_step_is_replaced_or_added_with_parameters_inputs_and_outputs() -> None:
    bench = spec(
        parameters={"top": 3},
        steps=[
            {"name": "report", "command": ["echo", "{archive}", "{{}}"]},
            {"name": "profile", "after": "wait", "command": ["prof", "--top", "{top}", "{shown}"],
             "outputs": {"shown": "{cell}.txt"}},
            {"name": "draw", "after": "profile", "inputs": ["shown"],
             "container": {"image": "r/draw:1", "command": ["draw"], "args": ["{shown}"]}},
        ],
    )  # fmt: skip
    planned = steps(bench, cells(bench)[0], Path("/o"), 0, OURS)
    by_name = {each.name: each for each in planned}

    assert ["configure", "launch", "wait", "profile", "draw", "analyze", "report", "clean-up"] == [
        each.name for each in planned
    ]
    assert ("echo", "/o/cells/gpt/0/archive-0", "{}") == by_name["report"].command
    assert ("prof", "--top", "3", "/o/cells/gpt/0/gpt.txt") == by_name["profile"].command
    assert ("/o/cells/gpt/0/gpt.txt",) == by_name["draw"].inputs
    assert ("draw", "/o/cells/gpt/0/gpt.txt") == by_name["draw"].command


def test_cells_are_left_out_where_all_of_an_exclusion_is_so() -> None:
    bench = spec(matrix={"nodes": [1, 2], "ranks_per_node": [1, 2],
                         "exclude": [{"nodes": 2, "ranks_per_node": 2}]})  # fmt: skip

    assert [1, 2, 2] == [each.ranks for each in cells(bench)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"benchmark": {}}, "the file has no key 'benchmark'; did you mean bench?"),
    ({"bench": {"name": "n", "repeat": 3}}, "no key 'repeat'; did you mean repeats?"),
    ({"bench": {}}, r"\[bench\] name is missing; give one"),
    ({"bench": {"name": "../up"}}, "name is '../up'"),
    ({"bench": {"name": "n", "launcher": "argos"}}, "one of local, .*did you mean argo?"),
    ({"bench": {"name": "n", "timeout": -1}}, "timeout is -1; it must be seconds above 0"),
    ({"bench": {"name": "n", "repeats": True}}, "repeats is True"),
    ({"bench": {"name": "n", "report": ["pdf"]}}, "report is 'pdf'"),
    ({"workloads": {}}, r"\[workloads.NAME\] is missing"),
    ({"workloads": {"chess": {}}}, r"\[workloads.chess\] workload is 'chess'"),
    ({"workloads": {"gpt": {"nodes": 2}}}, "nodes belongs into"),
    ({"workloads": {"gpt": {"command": ["x"], "workload": "gpt"}}}, "and a command; leave one"),
    ({"workloads": {"gpt": {"steps": {}}}}, "steps is {}"),
    ({"matrix": {"nods": [1]}}, "no key 'nods'; did you mean nodes?"),
    ({"matrix": {"nodes": []}}, "a list that is not empty"),
    ({"matrix": {"nodes": [0]}}, "nodes is 0; it must be a whole number from 1"),
    ({"matrix": {"nodes": [1, 1]}}, "has the same twice"),
    ({"matrix": {"workloads": ["resnet"]}}, "is 'resnet'; it must be one of gpt"),
    ({"matrix": {"layouts": [{"ep": 2}]}}, "layouts has no key 'ep'"),
    ({"matrix": {"exclude": [{"node": 2}]}}, "no key 'node'; did you mean nodes?"),
    ({"steps": [{"name": "x", "command": ["y"]}]}, "step x is new; say after which"),
    ({"steps": [{"name": "report"}]}, "needs a command or a container"),
    ({"steps": [{"name": "report", "command": ["a"], "outputs": {"a": "/etc"}}]}, "inside the"),
    ({"steps": [{"name": "x", "command": ["y"], "after": "wiat"}]}, "did you mean wait?"),
    ({"steps": [{"name": "report", "container": {"args": []}}]}, "container needs an image"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_told_by_its_key(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        spec(**given)


def test_cells_with_long_names_are_told_apart_by_a_hash() -> None:
    long = "x" * 200
    found = cells(spec(matrix={"nodes": [1, 2], "settings": [{"data": long}, {"data": long + "y"}],
                               "images": ["r/a:1", f"r/{long}:1", f"r/{long}:2"]}))  # fmt: skip

    assert 12 == len({each.name for each in found})
    assert 120 == max(len(each.name) for each in found)


def test_the_same_cell_twice_is_refused_by_name() -> None:
    with pytest.raises(BenchError, match=r"the same cell twice; gpt,dp2xtp1xpp1 \(2 ranks"):
        cells(spec(matrix={"nodes": [2], "layouts": [{}, {"dp": 2}]}))


@pytest.mark.parametrize("launcher", ["mpirun", "kubernetes", "argo"])
def test_a_program_of_yours_is_refused_with_other_launchers_than_local(launcher: str) -> None:
    bench = {"name": "n", "launcher": launcher}
    with pytest.raises(
        BenchError, match=rf"workloads.mine\] is a command, .* is {launcher}; leave"
    ):
        cells(spec(bench=bench, workloads={"mine": {"command": ["x"]}}))


def test_a_containers_command_is_filled_and_its_end_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = {
        "name": "report",
        "container": {"image": "i", "command": ["{tool}"], "args": ["{cell}"]},
    }
    bench = spec(parameters={"tool": "draw"}, steps=[step])
    report = next(each for each in steps(bench, cells(bench)[0], tmp_path, 0, OURS)
                  if each.name == "report")  # fmt: skip
    monkeypatch.setattr(processes, "container_runtime", lambda: "docker")

    words = processes.by_hand(report, tmp_path)
    assert words.startswith("docker run --rm --init ")
    assert words.endswith("--entrypoint draw i gpt")


def test_an_impossible_matrix_names_the_sizes() -> None:
    with pytest.raises(BenchError, match=r"impossible cell: gpt on 3 nodes x 1 .* dp 1 x tp 2"):
        cells(spec(matrix={"nodes": [3], "layouts": [{"tp": 2}]}))
    with pytest.raises(BenchError, match="has 20000 cells; at most 10000"):
        cells(spec(bench={"name": "n", "repeats": 10_000}, matrix={"nodes": [1, 2]}))
    with pytest.raises(BenchError, match="leaves no cell"):
        cells(spec(matrix={"exclude": [{"nodes": 1}]}))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"name": "report", "command": ["echo", "{color}"]}, r"names \{color\}, which is no param"),
        ({"name": "analyze", "command": ["x"], "inputs": ["table"]}, "has an input 'table'"),
    ],
)
def test_a_template_without_its_parameter_is_told(step: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        commands(spec(steps=[step]))


def test_a_file_that_is_none_is_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    with pytest.raises(BenchError, match=r"b.toml cannot be read: No such file"):
        read(path)
    path.write_text("[bench")
    with pytest.raises(BenchError, match=r"b.toml is not TOML"):
        read(path)
    path.write_bytes(b"\xff")
    with pytest.raises(BenchError, match=r"b.toml is not TOML"):
        read(path)


def test_every_accepted_setting_changes_what_is_run() -> None:
    """Kubebench took fields that nothing ever read."""

    def told(**given: Any) -> object:
        bench = spec(**given)
        return (bench.repeats, [steps(bench, cell, Path("/o"), 0, OURS) for cell in cells(bench)])

    plain = told()
    for change in (
        {"bench": {"name": "m"}, "steps": [{"name": "report", "command": ["{bench}"]}]},
        {"bench": {"name": "n", "launcher": "mpirun"}}, {"bench": {"name": "n", "repeats": 2}},
        {"bench": {"name": "n", "timeout": 9}}, {"bench": {"name": "n", "report": ["md"]}},
        {"bench": {"name": "n", "options": {"hostfile": "h"}}},
        {"workloads": {"gpt": {"steps": 41}}}, {"workloads": {"gpt": {"command": ["x"]}}},
        {"matrix": {"nodes": [2]}}, {"matrix": {"ranks_per_node": [2]}},
        {"matrix": {"images": ["i"]}}, {"matrix": {"settings": [{"seed": 1}]}},
        {"matrix": {"nodes": [2], "layouts": [{"pp": 2}]}},
        *({"steps": [{"name": "report", "command": ["x"], **more}]} for more in (
            {}, {"timeout": 1}, {"ok": [1]}, {"inputs": ["archive"]}, {"outputs": {"a": "b"}},
        )),
    ):  # fmt: skip
        assert plain != told(**change), change
