"""When the own time of a rank is known, as numbers and as Prometheus reads it."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from lockstep.analyzer.read.prometheus.questions import own_per_step
from lockstep.analyzer.shapes.waits import all_known

STEPS, KNOWN, OWN = (
    f"lockstep_train_{name}_total" for name in ("steps", "known_steps", "own_seconds")
)


def test_a_span_is_known_only_if_each_of_its_steps_is_and_somebody_counts_them():
    known = all_known(np.array([10.0, 9.0, np.nan, 0.0]), np.array([10.0, 10.0, 10.0, 10.0]))

    assert known.tolist() == [True, False, False, False]


PAGES = {
    "timed": ({STEPS: "0+30x20", KNOWN: "0+30x20", OWN: "0+3x20"}, 0.1),
    "timed from now on": ({STEPS: "900+30x20", KNOWN: "0x10 30+30x9", OWN: "0x10 3+3x9"}, 0.1),
    "one in thirty not timed": ({STEPS: "0+30x20", KNOWN: "0+29x20", OWN: "0+2.9x20"}, None),
    "never timed": ({STEPS: "0+30x20", KNOWN: "0x20", OWN: "0x20"}, None),
    "nobody counts": ({STEPS: "0+30x20", OWN: "0+3x20"}, None),
    "stands": ({STEPS: "90x20", KNOWN: "90x20", OWN: "9x20"}, None),
    "resumed": ({STEPS: "0+30x17 7000+30x3", KNOWN: "0+30x20", OWN: "0+3x20"}, None),
}


@pytest.mark.prometheus
def test_prometheus_gives_own_time_where_it_is_known_and_nothing_elsewhere(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    labels = {page: f'{{run="r",rank="{rank}"}}' for rank, page in enumerate(PAGES)}
    series = [
        {"series": metric + labels[page], "values": values}
        for page, (metrics, _) in PAGES.items()
        for metric, values in metrics.items()
    ]
    told = [
        {"labels": labels[page], "value": own}
        for page, (_, own) in PAGES.items()
        if own is not None
    ]
    asked = {"expr": f"round({own_per_step('1m')}, 1e-6)", "eval_time": "5m", "exp_samples": told}
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [asked]}
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"evaluation_interval": "15s", "tests": [test]}))

    answer = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)

    assert answer.returncode == 0, answer.stderr + answer.stdout
