"""Runs that lose what they stand on: their claim, and a node."""

import json

import pytest

from tests.cluster.pods.conftest import Launched
from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import RUNS, Prometheus, shared_folder
from tests.cluster.pods.runs import begun, named
from tests.cluster.pods.trouble import small_volumes

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: nothing else may run meanwhile
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]


def test_a_full_claim_of_runs_ends_a_run_with_a_sentence(
    operator: None, release: RealNodes, launched: Launched
):
    places = [(node, shared_folder(release)) for node in release.names]
    with small_volumes(release, *places) as fill:
        fill()
        with launched("--steps=300", "--timeout=300") as run:
            said, errors = run.communicate(timeout=400)
    assert 70 == run.returncode, (said, errors)
    assert "failed" == json.loads(said)["ending"]
    assert f"cannot write /runs/{run.name}: No space left on device" in errors, (said, errors)
    assert "Traceback" not in errors
    until(lambda: not release.pods(RUNS), PATIENCE)


def test_a_node_that_loses_its_power_under_a_run_is_named_and_comes_back(
    prometheus: Prometheus, operator: None, release: RealNodes, launched: Launched
):
    victim = release.names[1]
    with launched("--steps=20000", "--device-seconds=0.1", "--timeout=1500") as run:
        name = begun(release, run)
        steps = f'lockstep_train_steps_total{{run="{name}"}} > 20'
        until(lambda: len(prometheus.ask(steps)) == 2 or run.poll() is not None, PATIENCE)
        assert run.poll() is None, run.communicate()
        assert set() == named(prometheus, name)
        release.power_off(victim)
        try:
            until(lambda: victim in named(prometheus, name), PATIENCE)
            assert {victim} == named(prometheus, name)
            until(lambda: victim not in release.ready(), PATIENCE)
        finally:
            release.power_on(victim)
    until(lambda: not release.pods(RUNS), PATIENCE)
