"""The report's section: what `lockstep ledger` says of the archive alone."""

import dataclasses

import pandas as pd
import pytest

from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.sections.impact import where_time_went
from lockstep.analyzer.verdict.pipeline import diagnose


def test_it_names_the_culprit_and_sums_to_all_of_the_time(synthetic, fault):
    diagnosis = diagnose(synthetic(faults=[fault("thermal", 1, 1.5)]).run())
    section = next(one for one in document(diagnosis)["sections"] if one["name"] == "ledger")
    text, table = section["blocks"]
    rows = {row[0]: row for row in table["rows"]}

    assert "the largest loss is rank 1 (thermal)" in text["text"]
    assert rows["of it rank 1, thermal"][1] == pytest.approx(rows["straggler excess"][1])
    whole = sum(row[2] for name, row in rows.items() if not name.startswith("of it"))
    assert whole == pytest.approx(1.0)


def test_without_windows_there_is_none(synthetic):
    run = synthetic().run()
    bare = dataclasses.replace(run, windows=run.windows.iloc[:0], samples=pd.DataFrame())

    assert where_time_went(dataclasses.replace(diagnose(run), run=bare)) is None


def test_of_the_archive_of_a_finding_it_is_about_the_span_read(synthetic):
    run = synthetic().run()
    meta = {"source": "prometheus", "started": "2020-01-01T00:00:00+00:00", "ended": None}
    section = where_time_went(diagnose(dataclasses.replace(run, meta=meta)))

    assert section is not None
    text, table = section["blocks"]
    assert "All buckets sum to the span that was read times ranks." in text["text"]
    assert "not in it" in text["text"]
    assert table["title"] == "Ledger of this span"
