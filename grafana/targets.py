"""Queries of panels, and the parts that many of them share."""

from lockstep.grafana.settings import Json

SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
RATE = "$__rate_interval"
"""At least four scrapes, whatever the range: a fixed window goes empty or blurs."""
TOP = 20
"""Lines a reader can tell apart, and a browser draws at once."""
ROWS = 200
"""Of a heat map: one pixel row each is still seen."""


def query(expression: str, legend: str = "") -> Json:
    """A query over the range; `legend` names its lines."""
    return {
        "datasource": SOURCE, "expr": expression, "legendFormat": legend or "__auto",
        "range": True, "instant": False,
    }  # fmt: skip


def instant(expression: str, legend: str = "") -> Json:
    """A query at the end of the range."""
    return query(expression, legend) | {"range": False, "instant": True}


def row(expression: str) -> Json:
    """A query at the end of the range, whose series are rows of a table."""
    return instant(expression) | {"format": "table"}


def rate(selector: str) -> str:
    """Per second, over the window that suits the zoom."""
    return f"rate({selector}[{RATE}])"


def per_second(counter: str, by: str) -> str:
    """Rates of a counter, summed."""
    return f"sum by ({by}) ({rate(counter)})"


def worst(expression: str, by: str, ranked: str, count: int = TOP, end: str = "topk") -> str:
    """Of many series those that are worst in the range as a whole: the same ones at every step.

    A plain topk over a range names others at each step, and draws them all.

    Args:
        expression: What is drawn.
        by: Labels that name a series, as `run, rank`.
        ranked: What they are ranked by: of `highest`, `lowest` or `grown`.
        count: How many.
        end: topk, or bottomk where low is bad.
    """
    return f"{expression}\nand on ({by})\n{end}({count}, {ranked})"


def highest(gauge: str, by: str) -> str:
    """The most that a series was in the range."""
    return f"max by ({by}) (max_over_time({gauge}[$__range] @ end()))"


def lowest(gauge: str, by: str) -> str:
    """The least that a series was in the range."""
    return f"min by ({by}) (min_over_time({gauge}[$__range] @ end()))"


def grown(counter: str, by: str) -> str:
    """By how much a counter grew in the range; what did not is left out."""
    return f"sum by ({by}) (increase({counter}[$__range] @ end())) > 0"


def fastest(counter: str, by: str, count: int = TOP) -> str:
    """Rates of the counters that grew most in the range."""
    return worst(per_second(counter, by), by, grown(counter, by), count)


def of_run_gpus(expression: str) -> str:
    """A series with uuid, of the GPUs that the chosen run trains on."""
    return f'{expression}\nand on (uuid) lockstep_rank_info{{run=~"$run",uuid!=""}}'


def of_run_nodes(expression: str) -> str:
    """A series with node, of the nodes that the chosen run trains on."""
    return f'{expression}\nand on (node) lockstep_rank_info{{run=~"$run"}}'


def ranked_in_run(ranked: str, on: str) -> str:
    """What series are ranked by, of the run's own nodes (on = node) or GPUs (uuid) alone."""
    return (
        f"{ranked}\nand on ({on}) "
        f'last_over_time(lockstep_rank_info{{run=~"$run",{on}!=""}}[$__range] @ end())'
    )
