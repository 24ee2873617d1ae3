"""Links: those of panels, of alerts, of the index; each leads to something that is there."""

import re
from urllib.parse import parse_qsl, urlsplit

from lockstep.analyzer.rules.alert_rules.groups import ALERTS, annotations
from lockstep.dashboard import address
from lockstep.dashboard.pages.registry import PAGES
from lockstep.grafana import links as made
from tests.grafana.boards import BOARDS, links, panels

WORD = re.compile(r"\$\{__(field\.labels|data\.fields)\.(\w+):percentencode\}")
SAMPLE = {"run": "ns.run%202", "node": "node-1", "gpu": "3", "rank": "13"}
UIDS = {board["uid"] for board in BOARDS.values()}


def filled(url: str) -> str:
    url = WORD.sub(lambda found: SAMPLE[found[2]], url)
    for variable, value in (
        ("${datasource:queryparam}", "var-datasource=uid"), ("${__url_time_range}", "from=1&to=2"),
        ("${__from}", "1700000000000"), ("${__to}", "1700003600000"),
        ("${streamlit_url}", "http://127.0.0.1:8501"),
    ):  # fmt: skip
        url = url.replace(variable, value)
    assert "$" not in url
    return url


def test_every_dashboard_link_leads_to_a_dashboard_with_these_variables():
    for _, panel in panels():
        parts = urlsplit(filled(links(panel)[0]["url"]))
        uid = parts.path.removeprefix("/d/")
        variables = {f"var-{one['name']}" for one in BOARDS[f"{uid}.json"]["templating"]["list"]}

        assert {name for name, _ in parse_qsl(parts.query)} <= variables | {"from", "to"}, panel


def test_no_panel_leads_to_the_dashboard_it_stands_on():
    here = [
        (name, panel["title"])
        for name, panel in panels()
        if links(panel)[0]["url"].startswith(f"/d/{name.removesuffix('.json')}?")
    ]

    assert [] == here


def test_every_page_link_is_read_by_the_dashboard():
    for _, panel in panels():
        parts = urlsplit(filled(links(panel)[1]["url"]))
        place = address.read(dict(parse_qsl(parts.query)))

        assert (parts.path.removeprefix("/") or "now") in made.PAGES
        assert ("1700000000000", "1700003600000") == (place.since, place.until)
        assert place.run in ("", "ns.run 2")
        assert place.gpu in (None, 3)
        assert place.rank in (None, 13)


def test_the_pages_that_links_lead_to_are_those_of_the_dashboard():
    assert set(made.PAGES) <= {page.key for page in PAGES}


def test_rows_of_tables_lead_by_their_cells_and_lines_by_their_labels():
    for name, panel in panels():
        kinds = {kind for one in links(panel) for kind, _ in WORD.findall(one["url"])}
        wanted = "data.fields" if panel["type"] == "table" else "field.labels"

        assert kinds <= {wanted}, (name, panel["title"])


def test_every_alert_leads_to_a_dashboard_that_has_its_variable():
    for alert in ALERTS:
        parts = urlsplit(annotations(alert)["grafana_url"])
        uid = parts.path.rsplit("/", 1)[1]
        variables = {one["name"] for one in BOARDS[f"{uid}.json"]["templating"]["list"]}

        assert uid in UIDS
        assert set(re.findall(r"var-(\w+)=", parts.query)) <= variables


def test_the_index_leads_to_every_other_dashboard():
    [index] = [one for one in BOARDS["lockstep-home.json"]["panels"] if one["type"] == "text"]
    linked = set(re.findall(r"\(/d/([\w-]+)\?", index["options"]["content"]))

    assert UIDS - {"lockstep-home"} == linked
