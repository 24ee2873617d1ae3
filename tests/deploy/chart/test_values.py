"""Values that would give a wrong cluster are refused, with the key and the reason."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import Chart, HelmError, lint

from tests.deploy.chart.chart import CHART, objects, values_files

BAD = {
    one["what"]: one
    for one in yaml.safe_load((Path(__file__).parent / "bad_values.yaml").read_text("utf-8"))
}


@pytest.mark.parametrize("what", BAD)
def test_bad_values_are_refused_and_the_reason_names_them(what: str):
    with pytest.raises(HelmError) as refused:
        objects(BAD[what]["values"])

    assert str(BAD[what]["names"]) in str(refused.value)


@pytest.mark.parametrize("name", values_files())
def test_lint_has_nothing_to_say(name: str):
    report = lint(CHART, dict(values_files()[name]), strict=True, quiet=True)

    assert ([], []) == (
        report["errors"],
        [one for one in report["messages"] if one["severity"] > 1],
    )


def test_every_default_is_in_the_schema_and_the_schema_knows_no_more():
    with Chart.load(CHART) as chart:
        schema, values = chart.schema, chart.values
    schema = yaml.safe_load(schema) if isinstance(schema, (str, bytes)) else schema

    assert sorted(_keys(values)) == sorted(set(_known(schema, schema)) - {"global"})


def test_every_object_of_the_schema_refuses_what_it_does_not_know():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    open_ones = [
        where for where, one in _all(schema)
        if one.get("type") == "object"
        and (one.get("additionalProperties") is not False if "properties" in one
             else "additionalProperties" not in one)
    ]  # fmt: skip

    assert ["#/properties/global"] == open_ones


def test_every_value_is_explained_or_speaks_for_itself():
    lines = (CHART / "values.yaml").read_text().splitlines()

    assert all(len(line) <= 110 for line in lines)
    assert {line.split(":")[0] for line in lines if line[:1].isalpha()} == {
        name for name, _ in yaml.safe_load("\n".join(lines)).items()
    }


def test_texts_for_people_name_values_that_there_are():
    known = set(_keys(yaml.safe_load((CHART / "values.yaml").read_text())))
    parts = "|".join(sorted({one.partition(".")[0] for one in known}))
    for name in ("README.md", "templates/NOTES.txt"):
        # In templates, what stands in braces is code, which the render has tried.
        text = re.sub(r"{{.*?}}", "", (CHART / name).read_text())
        told = set(re.findall(rf"(?<![\w.-])((?:{parts})\.[a-zA-Z.]+[a-zA-Z])", text))
        assert told
        assert set() == told - known


WARNING = 2
"""Helm's severities: 1 information, 2 warning, 3 error."""
FREE = ("labels", "nodeSelector", "selector", "sysctls", "resources")
"""Objects whose keys a user chooses."""


def _keys(values: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, value in values.items():
        found.append(before + name)
        if isinstance(value, dict) and name not in FREE:
            found += _keys(value, f"{before}{name}.")
    return found


def _known(schema: Any, root: Any, before: str = "") -> list[str]:
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    found = []
    for name, inner in schema.get("properties", {}).items():
        found.append(before + name)
        if name not in FREE:
            found += _known(inner, root, f"{before}{name}.")
    return found


def _all(schema: Any, where: str = "#") -> list[tuple[str, Any]]:
    if isinstance(schema, list):
        return [one for at, inner in enumerate(schema) for one in _all(inner, f"{where}/{at}")]
    if not isinstance(schema, dict):
        return []
    inner = [one for key, each in schema.items() for one in _all(each, f"{where}/{key}")]
    return [(where, schema), *inner]
