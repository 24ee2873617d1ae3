"""The JSON is Grafana's: read by its own SDK into its classes and written again, nothing is lost.

A key that Grafana does not know, at any depth down to a panel's options, would be dropped.
"""

import json
import warnings

import pytest

from tests.grafana.boards import BOARDS

with warnings.catch_warnings():  # it announces the next model, and we are on purpose on this one
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()


def lost(before, after, path: str = "") -> list[str]:
    """Where something of `before` is absent from `after`, or another."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            place
            for key, value in before.items()
            for place in (
                lost(value, after[key], f"{path}.{key}") if key in after else [f"{path}.{key}"]
            )
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [one for i, (a, b) in enumerate(pairs) for one in lost(a, b, f"{path}[{i}]")]
    return [] if before == after else [path]


def again(board):
    board = json.loads(json.dumps(board))
    return json.loads(JSONEncoder().encode(Dashboard.from_json(board)))


@pytest.mark.parametrize("name", BOARDS)
def test_grafanas_own_classes_read_and_write_all_of_it(name: str):
    assert [] == lost(BOARDS[name], again(BOARDS[name]))


@pytest.mark.parametrize(
    "kind", ["timeseries", "stat", "table", "heatmap", "state-timeline", "text"]
)
def test_a_key_that_grafana_does_not_know_is_found(kind: str):
    board = json.loads(json.dumps(BOARDS["lockstep-home.json"]))
    everything = [one for each in BOARDS.values() for one in each["panels"]]
    panel = json.loads(json.dumps(next(one for one in everything if one["type"] == kind)))
    board["panels"] = [panel]
    panel["options"]["hollow"] = 1
    panel["colour"] = 1

    assert [".panels[0].options.hollow", ".panels[0].colour"] == lost(board, again(board))
