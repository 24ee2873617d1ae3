"""An answer that says itself that it is not whole."""

import json

import pytest

from lockstep.analyzer.read.prometheus.answers import warning


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
