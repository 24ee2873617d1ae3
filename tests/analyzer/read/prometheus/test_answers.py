"""Answers: bytes to arrays, every whole answer exactly and nothing of a torn one; and warnings."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.answers import decode, warning

URL = "http://prometheus:9090"
SERIES = st.tuples(
    st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=3),
    st.lists(
        st.tuples(
            st.integers(0, 4_000_000_000_000), st.floats(allow_nan=True, allow_infinity=True)
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda pair: pair[0],
    ),
)


def _text(value):
    return {np.inf: "+Inf", -np.inf: "-Inf"}.get(value, "NaN" if value != value else repr(value))


def _body(series, indent=None):
    result = [
        {"metric": labels, "values": [[time / 1000, _text(value)] for time, value in sorted(pairs)]}
        for labels, pairs in series
    ]
    tree = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(tree, indent=indent).encode()


@settings(max_examples=40)
@given(st.lists(SERIES, max_size=4), st.sampled_from([None, 1]))
def test_what_prometheus_writes_is_read_exactly(series, indent):
    found = list(decode(_body(series, indent), URL))

    assert [labels for labels, _ in series] == [one.labels for one in found]
    for (_, pairs), one in zip(series, found, strict=True):
        pairs = sorted(pairs)
        assert [time for time, _ in pairs] == one.times.tolist()
        np.testing.assert_array_equal([value for _, value in pairs], one.values)


@settings(max_examples=40)
@given(st.lists(SERIES, min_size=1, max_size=3), st.data())
def test_half_an_answer_is_none(series, data):
    body = _body(series)
    cut = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(SourceError, match="no whole JSON"):
        list(decode(body[:cut], URL))


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_sentence(body):
    with pytest.raises(SourceError):
        list(decode(body, URL))


@pytest.mark.parametrize(
    "values",
    ['[[1,"2"],[3]]', '[[1,"x"]]', '[["NaN","1"]]', '[[2,"1"],[1,"1"]]', '[[1,"1"],[1,"2"]]',
     "7", '"text"', "[1,2,3]"],
)  # fmt: skip
def test_samples_that_are_no_pairs_in_order_are_refused(values):
    body = (
        '{"status":"success","data":{"resultType":"matrix","result":'
        f'[{{"metric":{{}},"values":{values}}}]}}}}'
    )

    with pytest.raises(SourceError):
        list(decode(body.encode(), URL))


def test_a_label_that_looks_like_samples_is_a_label():
    labels = {"values": 'x","values":[[1,"2"]]}'}
    found = list(decode(_body([(labels, [(1000, 2.0)])]), URL))

    assert [(labels, [1000], [2.0])] == [
        (one.labels, one.times.tolist(), one.values.tolist()) for one in found
    ]


def test_native_histograms_beside_samples_are_left_out():
    body = (
        b'{"status":"success","data":{"resultType":"matrix","result":['
        b'{"metric":{"a":"b"},"values":[[1,"2"]],"histograms":[[1,{"count":"3"}]]},'
        b'{"metric":{"a":"c"},"histograms":[[1,{"count":"3"}]]}]}}'
    )

    assert [{"a": "b"}] == [one.labels for one in decode(body, URL)]


# An answer that says itself that it is not whole.


def answer(warnings=None, label="x"):
    tree = {"status": "success", "data": {"resultType": "vector", "result": [
        {"metric": {"a": label}, "value": [1, "2"]}
    ]}}  # fmt: skip
    return json.dumps(tree | ({} if warnings is None else {"warnings": warnings})).encode()


def test_a_whole_answer_has_no_warning():
    assert "" == warning(answer())
    assert "" == warning(answer([]))


@pytest.mark.parametrize(
    "label", ['"warnings":["lost"]', '\\"warnings\\":["lost"]', "warnings", '],"warnings":["lost"]']
)
def test_a_label_is_no_warning(label):
    assert "" == warning(answer(label=label))


def test_what_is_missing_is_told_on_one_line():
    assert 'store ] "a"? is gone' == warning(answer(['store ] "a"\u0007 is\ngone']))


def test_remarks_about_the_query_are_no_warning():
    assert "" == warning(answer(["PromQL info: metric might not be a counter"]))


def test_what_is_no_json_is_left_to_who_reads_it():
    assert "" == warning(b"<html>")


def test_a_cluster_of_victoria_metrics_says_it_in_front():
    body = b'{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}'

    assert "isPartial" in warning(body)
    assert "" == warning(body.replace(b"true", b"false"))
