"""Where the time went, of archives and of what recording rules told."""

from pathlib import Path

import pytest

from lockstep.dashboard.shapes import FindingRow, LedgerRow, Severity, Span
from lockstep.dashboard.sources.prometheus.ledgers import ledgers


class Answers:
    """What Prometheus says of the rules' series."""

    def __init__(self, rows: dict[tuple[str, str], float]) -> None:
        self.rows, self.asked = rows, []
        self.teams: list[tuple[str, str]] = []

    def instant(self, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        self.asked.append((query, at))
        if "kube_pod_labels" in query:
            names = ("label_lockstep_example_run", "label_lockstep_example_team")
            return [(dict(zip(names, each, strict=True)), 1.0) for each in self.teams]
        return [({"run": run, "bucket": bucket}, value)
                for (run, bucket), value in self.rows.items()]  # fmt: skip


def finding(node: str, cause: str) -> FindingRow:
    return FindingRow("f", Severity.CRITICAL, True, "r", node, None, None, "", cause, None, None,
                      0.0, None, "")  # fmt: skip


TOLD = {("r", "useful"): 71.0, ("r", "communication"): 11.0, ("r", "straggler"): 13.0,
        ("r", "starting"): 5.0}  # fmt: skip


def test_rules_give_a_row_and_its_only_culprit_the_straggler():
    asking = Answers(TOLD)
    (row,) = ledgers(asking, Span(0.0, 900.0), "r", (finding("node-7", "thermal"),))  # type: ignore[arg-type]

    assert row.sentence == "82% useful; the largest loss is node-7 (thermal), 13%."
    assert row.rank_seconds == 100.0
    assert "900000ms" in asking.asked[0][0]
    assert any("replayed are missing" in each for each in row.missing)


def test_of_several_culprits_rules_know_the_sum_only():
    named = (finding("node-7", "thermal"), finding("node-2", "data"))
    (row,) = ledgers(Answers(TOLD), Span(0.0, 900.0), "", named)  # type: ignore[arg-type]

    assert row.stragglers == {"culprits together": 13.0}


@pytest.mark.parametrize(
    ("teams", "whose"),
    [([("r", "vision"), ("s", "speech")], "vision"), ([], "unknown"), ([("s", "x")], "unknown"),
     ([("r", "vision"), ("r", "speech")], "unknown")],
)  # fmt: skip
def test_the_labels_of_pods_say_whose_a_run_is(teams: list[tuple[str, str]], whose: str):
    asking = Answers(TOLD)
    asking.teams = teams
    (row,) = ledgers(asking, Span(0.0, 900.0), "r", ())  # type: ignore[arg-type]

    assert row.team == whose


def test_without_rules_nothing_is_told():
    assert ledgers(Answers({}), Span(0.0, 900.0), "", ()) == ()  # type: ignore[arg-type]


def test_an_archive_gives_its_attempt_and_a_torn_one_is_named(tmp_path: Path):
    from lockstep.dashboard.sources.ledgers import of_archives
    from tests.dashboard.archives import write

    good = write(tmp_path / "good")
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "run.json").write_text("{")
    rows = of_archives([good, torn])

    assert isinstance(rows[0], LedgerRow)
    assert rows[0].rank_seconds > 0
    assert any("torn cannot be read" in each for each in rows[0].missing)


@pytest.mark.parametrize("titles", ["KEPT_BUCKETS"])
def test_what_pages_call_kept_is_what_goodput_counts(titles: str):
    from lockstep.analyzer.ledger.buckets import BUCKETS
    from lockstep.dashboard import shapes

    assert set(getattr(shapes, titles)) == {row.title for row in BUCKETS if row.productive}
