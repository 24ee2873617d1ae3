"""What makes a dashboard good: rules of dashboard-linter that apply, and our own conventions.

SOURCE: github.com/grafana/dashboard-linter, docs/rules. Its rules on `job` and `instance` are
replaced: Lockstep selects by run and node. Each test names the rule that it stands for.
"""

import re

import pytest

from lockstep.grafana.book import LEGACY
from lockstep.grafana.panels import GREY
from lockstep.grafana.settings import SCHEMA_VERSION
from tests.grafana.boards import BOARDS, links, panels, queries

DATA = [(name, panel) for name, panel in panels() if panel["type"] != "text"]
RANGE_FUNCTION = re.compile(r"\b(rate|irate|increase|delta|changes|resets)\(([^\[\]]*)\[([^\]]*)\]")


def wrong(items, right):
    return [(name, panel["title"]) for name, panel in items if not right(panel)]


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_named_tagged_and_refreshed_as_all_are(name: str):
    board = BOARDS[name]
    key = name.removeprefix("lockstep-").removesuffix(".json")

    assert (f"lockstep-{key}", ["lockstep", key], SCHEMA_VERSION, "30s", 1) == (
        board["uid"], board["tags"], board["schemaVersion"], board["refresh"],
        board["graphTooltip"],
    )  # fmt: skip
    assert len(board["uid"]) <= 40
    assert board["title"].startswith("Lockstep / ")
    assert board["description"].endswith("?")


@pytest.mark.parametrize("name", BOARDS)
def test_it_has_8_to_20_panels_with_numbers_and_titles_of_their_own(name: str):
    made = BOARDS[name]["panels"]

    assert 8 <= len(made) <= 20
    assert len(made) == len({panel["id"] for panel in made}) == len({one["title"] for one in made})


def test_uneditable():
    assert [] == [name for name, board in BOARDS.items() if board["editable"]]


def test_no_two_panels_cover_each_other_and_none_leaves_the_grid():
    for board in BOARDS.values():
        cells = [
            (place["x"] + column, place["y"] + line)
            for place in (panel["gridPos"] for panel in board["panels"])
            for column in range(place["w"])
            for line in range(place["h"])
        ]

        assert len(cells) == len(set(cells))
        assert max(column for column, _ in cells) < 24


def test_template_datasource():
    for board in BOARDS.values():
        first = board["templating"]["list"][0]

        assert ("datasource", "datasource", "prometheus") == (
            first["name"], first["type"], first["query"],
        )  # fmt: skip


def test_panel_datasource():
    wanted = {"type": "prometheus", "uid": "${datasource}"}

    assert [] == wrong(
        DATA,
        lambda panel: (
            panel["datasource"] == wanted
            and all(one["datasource"] == wanted for one in panel["targets"])
        ),
    )


def test_template_on_time_change_reload_and_chained_with_all():
    for board in BOARDS.values():
        chosen = [one for one in board["templating"]["list"] if one["type"] == "query"]
        names = [one["name"] for one in chosen]

        assert names == ["run", "node", "gpu"][: len(names)] != []
        for before, one in zip([None, *names], chosen, strict=False):
            assert (2, True, True, ".*") == (
                one["refresh"], one["multi"], one["includeAll"], one["allValue"],
            )  # fmt: skip
            assert one["definition"] == one["query"]["query"]
            assert before is None or f'{before}=~"${before}"' in one["definition"]


def test_every_variable_that_is_used_is_one_of_the_dashboard():
    for query in queries():
        has = {one["name"] for one in BOARDS[query.board]["templating"]["list"]}
        used = set(re.findall(r"\$(\w+)", query.expression)) - {"__range", "__rate_interval"}

        assert used <= has, query


def test_panel_title_description_says_what_is_normal_and_what_to_do():
    assert [] == wrong(
        panels(),
        lambda panel: (
            panel["title"]
            and {"**Normal:**", "**Otherwise:**"} <= set(panel["description"].split())
        ),
    )


def test_panel_units():
    assert [] == wrong(DATA, lambda panel: panel["fieldConfig"]["defaults"]["unit"])


def test_panel_no_targets():
    assert [] == wrong(DATA, lambda panel: panel["targets"])


def test_every_panel_leads_to_another_dashboard_and_to_ours():
    assert [] == wrong(
        panels(),
        lambda panel: (
            links(panel)[0]["url"].startswith("/d/lockstep-")
            and links(panel)[1]["url"].startswith("${streamlit_url}/")
        ),
    )


def test_every_panel_says_in_words_that_it_has_no_value():
    assert [] == wrong(DATA, lambda panel: len(panel["fieldConfig"]["defaults"]["noValue"]) > 3)


def test_no_panel_is_of_a_legacy_type():
    assert [] == wrong(panels(), lambda panel: panel["type"] not in LEGACY)


def test_a_limit_says_whose_it_is_and_without_one_there_is_none():
    assert [] == wrong(
        DATA,
        lambda panel: (
            (len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1)
            == ("Limit:" in panel["description"])
        ) or panel["type"] == "state-timeline",
    )  # fmt: skip


def test_target_rate_interval():
    for query in queries():
        for function, _, window in RANGE_FUNCTION.findall(query.expression):
            whole = function == "increase" and window == "$__range"

            assert window == "$__rate_interval" or whole, query


def test_target_counter_agg():
    counters = re.compile(r"\b(lockstep_\w+_total)\b(?!\w)(?:\{[^}]*\})?(?!\[|[\w{])")
    # Errors of a GPU's life are asked for as they stand: their driver counts over its life.
    standing = {"lockstep_gpu_ecc_errors_total"}
    gauges = [
        (query.panel, name)
        for query in queries()
        for name in counters.findall(query.expression)
        if name not in standing
        and not name.startswith(("lockstep_node", "lockstep_host_memory"))
    ]  # fmt: skip

    assert [] == gauges


def test_lines_of_many_series_are_the_same_ones_at_every_step():
    for query in queries():
        if query.instant:
            continue
        for ranked in re.findall(r"(?:topk|bottomk)\((\d+), (.*)", query.expression):
            assert "@ end()" in ranked[1], query
            assert int(ranked[0]) <= 200


def test_multi_valued_variables_are_matched_as_patterns():
    for query in queries():
        for operator in re.findall(r'(=~|!~|!=|=)"[^"]*\$(?:run|node|gpu)', query.expression):
            assert operator == "=~", query


def test_lines_of_gpus_are_called_by_node_and_gpu():
    for query in queries():
        if "{{gpu}}" in query.legend:
            assert "{{node}}" in query.legend, query


def test_every_dashboard_draws_findings_or_boots():
    for name, board in BOARDS.items():
        names = {one["name"] for one in board["annotations"]["list"]}

        assert names & {"Findings", "Boots"}, name


def test_the_run_dashboard_shows_model_and_machines_on_one_time_axis():
    board = BOARDS["lockstep-run.json"]
    titles = {one["title"] for one in board["panels"] if one["type"] == "timeseries"}

    assert len(titles) >= 8
    assert titles >= {"Loss", "Throughput", "GPU utilisation", "CPU", "Memory available"}


INNOCENT = ("none", "nothing", "healthy", "every", "all ", "ok", "fine", "no finding is open", "0")


def test_what_is_not_told_is_grey_and_never_said_to_be_well():
    stats = [(name, panel) for name, panel in DATA if panel["type"] == "stat"]

    def grey(panel):
        (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
        result = mapping["options"]["result"]
        return mapping["options"]["match"] == "null+nan" and result["color"] == GREY

    def honest(panel):
        words = panel["fieldConfig"]["defaults"]["noValue"].lower()
        return not words.startswith(INNOCENT)

    assert stats
    assert [] == wrong(stats, grey)
    assert [] == wrong(stats, honest)
    assert [] == [name for name, panel in DATA if "green" in str(panel)]
