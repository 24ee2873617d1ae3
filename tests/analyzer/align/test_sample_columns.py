"""Samples as numbers: the same whoever wrote them, and however many are looked at at once."""

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align import sample_columns
from lockstep.analyzer.align.sample_columns import SampleColumns, numbered

NODES = ["b", "a", None, "b", "a", "b", "a"]


@pytest.fixture
def samples():
    return pd.DataFrame({
        "time": [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0],
        "node": NODES,
        "gpu": pd.array([0, None, 1, 0, 1, None, 0], dtype="Int32"),
        "rank": pd.array([None] * 7, dtype="Int32"),
        "metric": ["up", "x", "x", "y", "up", "x", "x"],
        "labels": [None, 'k="1"', "", None, "", 'k="2"', None],
        "value": [1.0, 2.0, 3.0, 4.0, 0.0, 6.0, 7.0],
    })  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
@pytest.mark.parametrize("words", ["texts", "categories"])
def test_rows_of_a_node_keep_their_order(samples, monkeypatch, at_once, words):
    monkeypatch.setattr(sample_columns, "SOME_ROWS", at_once)
    if words == "categories":
        samples = samples.astype(dict.fromkeys(("node", "metric", "labels"), "category"))

    found = {node: rows.tolist() for node, rows in SampleColumns(samples).nodes()}

    assert {"a": [1, 4, 6], "b": [0, 3, 5]} == found


def test_no_labels_are_empty_labels(samples):
    table = SampleColumns(samples)
    found = [table.labels[code] for code in table.label(np.arange(7))]

    assert ["", 'k="1"', "", "", "", 'k="2"', ""] == found
    assert [0, 4] == np.flatnonzero(table.is_up(np.arange(7))).tolist()


def test_numbers_that_are_not_told_are_nan(samples):
    for kind in ("Int32", "float64", "object"):
        table = SampleColumns(samples.astype({"gpu": kind}))

        found = table.numbers("gpu", np.array([0, 1, 4]))

        np.testing.assert_array_equal([0.0, np.nan, 1.0], found)


def test_different_values_are_numbered_as_they_rise():
    place, values = numbered(np.array([5.0, 2.0, 5.0, 9.0]))

    assert ([1, 0, 1, 2], [2.0, 5.0, 9.0]) == (place.tolist(), values.tolist())
