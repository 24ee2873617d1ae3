"""A folder of archives: each answers for its run, and none takes the others away."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, Severity, Span
from lockstep.dashboard.sources.folder import FolderSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.archives import Made, write

OLD, NEW = Made().name, Made(seed=1).name


@pytest.fixture
def source(runs: Path) -> FolderSource:
    return FolderSource(runs)


def finding(folder: Path, run: str, closed: float | None) -> None:
    """finding.json as `lockstep watch` writes it."""
    key = {"run": run, "scope": "rank", "node": "node-1", "rank": 2, "gpu": 0, "link": None,
           "cause": "thermal", "tier": "page"}  # fmt: skip
    tree = {"schema_version": 1, "run": run, "attempt": None, "key": key, "opened": 1_795_000_030.0,
            "closed": closed, "onset": 1_795_000_012.0, "first_seen": 1_795_000_020.0,
            "sentence": "Rank 2 is too hot.", "verdict": "verdict.json", "alerts": [],
            "kind": "slow", "confidence": 0.9, "slowdown": 1.5, "uuid": None,
            "from_step": None}  # fmt: skip
    (folder / "finding.json").write_text(json.dumps(tree))


def test_runs_are_told_newest_first_with_what_cannot_be_read(source: FolderSource) -> None:
    rows = source.runs()

    assert {OLD, NEW, "torn"} == {each.run for each in rows}
    readable = [each.run for each in rows if each.run != "torn"]
    assert [NEW, OLD] == readable
    torn = next(each for each in rows if each.run == "torn")
    assert "unknown" == torn.state
    assert "cannot be read" in str(torn.sentence)


def test_what_cannot_be_read_is_told_with_its_reason_and_what_would_be_right(
    source: FolderSource, runs: Path
) -> None:
    (said,) = source.answer().left_out

    assert said.startswith(f"Archive torn cannot be read: {runs / 'torn' / 'run.json'} is no whole")
    assert "remove the archive" in said
    assert () == source.answer(run=OLD).left_out


def cut(part: Path) -> None:
    """As a writer that was killed leaves it."""
    part.write_bytes(part.read_bytes()[:-20])


def test_a_run_says_what_is_missing_of_its_archive(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(runs, folder)
    source = FolderSource(folder)
    (archive,) = [each for each in folder.iterdir() if each.name == Path(str(
        source.folder(OLD))).name]  # fmt: skip
    cut(sorted((archive / "steps.parquet").glob("*.parquet"))[-1])

    (told,) = source.answer(run=OLD).missing
    assert told.startswith("a part of steps.parquet cannot be read and is left out")
    assert () == source.answer(run=NEW).missing
    checks = {each.name: each for each in source.health().checks}
    assert "its end is missing" in checks[f"Archive {archive.name}"].text
    assert Severity.WARNING == checks[f"Archive {archive.name}"].severity


def test_health_says_of_which_run_it_is(source: FolderSource) -> None:
    told = source.health()

    assert NEW in told.about
    assert "Scrapes" in [each.name for each in told.checks]
    assert "Archives" not in [each.name for each in source.health(OLD).checks]
    assert "" == source.health(OLD).about


def test_questions_about_a_run_go_to_its_archive(source: FolderSource) -> None:
    assert "degraded" == source.run(OLD).status
    assert "healthy" == source.run(NEW).status
    assert 9 == len(source.run_lines(NEW, source.run(NEW).span))


def test_an_unreadable_run_is_trouble_of_its_own(source: FolderSource) -> None:
    with pytest.raises(TroubleError) as trouble:
        source.run("torn")

    assert Kind.UNREADABLE == trouble.value.kind


def test_an_unknown_run_is_trouble_with_those_that_there_are(source: FolderSource) -> None:
    with pytest.raises(TroubleError) as trouble:
        source.ranks("nothing", source.extent())

    assert {OLD, NEW, "torn"} == set(trouble.value.choices)


def test_findings_and_events_are_those_of_all_runs(source: FolderSource) -> None:
    span = source.extent()

    assert [OLD] == [each.run for each in source.findings(span)]
    assert {OLD, NEW} == {each.run for each in source.events(span)}
    assert () == source.findings(span, NEW)


def test_the_map_is_that_of_the_newest_run_or_of_the_moment(source: FolderSource) -> None:
    metric = FLEET_METRICS[0]

    assert {NEW} == set(source.fleet(metric).runs)
    assert {OLD} == set(source.fleet(metric, 1_795_000_020.0).runs)


def test_a_node_is_that_of_its_newest_run(source: FolderSource) -> None:
    facts = source.node("node-1", source.extent())

    assert (NEW, OLD) == facts.runs


def test_an_unknown_node_is_trouble(source: FolderSource) -> None:
    with pytest.raises(TroubleError) as trouble:
        source.node_lines("node-9", source.extent())

    assert Kind.UNKNOWN_ID == trouble.value.kind
    assert ("node-0", "node-1") == trouble.value.choices


def test_health_tells_of_the_folder_first(source: FolderSource) -> None:
    checks = source.health().checks

    assert [("Archives", Severity.NOTE), ("Archive torn", Severity.WARNING)] == [
        (each.name, each.severity) for each in checks[:2]
    ]
    assert "wait for the run to end" in checks[1].next_step


def test_archives_of_findings_lie_two_levels_deep(tmp_path: Path) -> None:
    made = Made(slow=2)
    write(tmp_path / made.name, made)
    one = write(tmp_path / "out" / "20261118T110712Z-rank-2", made)
    two = write(tmp_path / "out" / "20261118T110812Z-rank-2", made)
    finding(one, made.name, 1_795_000_035.0)
    finding(two, made.name, None)
    shutil.copytree(two, tmp_path / "out" / ".under-way-x")
    source = FolderSource(tmp_path)
    found = source.findings(Span(0, 4e9))

    assert [made.name] == [each.run for each in source.runs()]
    assert tmp_path / made.name == source.folder(made.name)
    assert [two.name, one.name, f"{made.name}-0"] == [each.finding for each in found]
    assert [True, False, False] == [each.open for each in found]


def test_only_archives_of_findings_still_are_a_run(tmp_path: Path) -> None:
    made = Made(slow=2)
    finding(write(tmp_path / "r" / "m-rank-2", made), made.name, None)

    assert [made.name] == [each.run for each in FolderSource(tmp_path).runs()]


def test_links_are_not_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(runs / OLD)

    assert () == FolderSource(tmp_path).runs()


@pytest.mark.parametrize(
    "ask", [lambda s: s.extent(), lambda s: s.fleet(FLEET_METRICS[0]), lambda s: s.run("x")]
)
def test_an_empty_folder_says_how_to_fill_it(
    tmp_path: Path, ask: Callable[[FolderSource], Any]
) -> None:
    source = FolderSource(tmp_path)
    with pytest.raises(TroubleError) as trouble:
        ask(source)

    assert Kind.EMPTY == trouble.value.kind
    assert trouble.value.next_step.startswith("lockstep run")
    assert () == source.runs()
    assert source.answer().at is None


def test_a_folder_that_is_not_there_is_trouble(tmp_path: Path) -> None:
    with pytest.raises(TroubleError) as trouble:
        FolderSource(tmp_path / "nowhere").runs()

    assert Kind.NO_SOURCE == trouble.value.kind


def test_a_new_run_and_a_new_verdict_are_seen_at_once(tmp_path: Path) -> None:
    source = FolderSource(tmp_path)
    assert () == source.runs()
    folder = write(tmp_path / "a", Made(verdict=False))
    assert source.runs()[0].status is None
    shutil.copyfile(write(tmp_path / ".b", Made()) / "verdict.json", folder / "verdict.json")

    assert "healthy" == source.runs()[0].status
