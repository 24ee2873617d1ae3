"""Two programs that call themselves by one run's name: nobody in it is judged, and that is said."""

from lockstep.analyzer.findings.finding import Kind, Tier
from lockstep.watch.judge.detections import of_namesakes
from lockstep.watch.look.members import members, namesakes


def info(node: str, pid: str = "1", job: str = "lockstep", rank: str = "0") -> dict[str, str]:
    return {"run": "gpt", "rank": rank, "attempt": "0", "node": node, "pid": pid, "job": job,
            "instance": f"{node}:9410"}  # fmt: skip


def up(*infos: dict[str, str], gone: tuple[str, ...] = ()):
    return lambda: [(one, float(one["node"] not in gone)) for one in infos]


def told(*infos: dict[str, str], gone: tuple[str, ...] = ()):
    return namesakes([(one, 1.0) for one in infos], up(*infos, gone=gone))


def test_a_rank_that_lives_on_two_nodes_is_of_two_programs():
    two = info("node-5"), info("node-1"), info("node-1", rank="1")

    assert {"gpt": ("node-1", "node-5")} == told(*two)
    [said] = of_namesakes(told(*two), members([(one, 1.0) for one in two]), 1000.0)
    assert (Kind.EVENT, Tier.RECORD, True) == (said.kind, said.tier, said.sure)
    assert "Two programs call themselves run gpt, on node-1, node-5" in said.sentence


def test_a_run_that_was_started_again_elsewhere_has_its_name_alone():
    assert {} == told(info("node-1"), info("node-5"), gone=("node-1",))


def test_one_process_that_two_jobs_scrape_is_one():
    assert {} == told(info("node-1"), info("node-1", job="other"))


def test_where_each_rank_is_told_once_nobody_is_asked_more():
    def never():
        raise AssertionError

    assert {} == namesakes([(info("node-1"), 1.0), (info("node-1", rank="1"), 1.0)], never)
