"""The words of an alert: a telephone's line, how sure, and the first action for this machine."""

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.finding import LOST, Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.headline import LONGEST, clipped, first_action, headline, sureness
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import PAGED, describe

SLOW = WatchFinding(
    who=Who("gpt", "gpu-17", 5, 1, None), kind=Kind.SLOW, scope="gpu", attempt=0, cause="thermal",
    tier=Tier.PAGE, confidence=0.93, slowdown=1.4849, onset=990.0, first_seen=995.0, opened=1000.0,
    seen=1000.0, closed=None, sentence="Rank 5 is slow.", facts=(),
    folder="gpt/19700101T001640Z-rank-5", place_confidence=0.98,
)  # fmt: skip
names = st.text(max_size=300)


def test_the_line_says_who_since_when_how_much_and_what_to_do() -> None:
    assert headline(SLOW) == (
        "gpu-17 GPU 1 (rank 5) 1.48x slower since 00:16:30 UTC, thermal."
        " Take the node out of service after the next checkpoint."
    )
    assert headline(replace(SLOW, cause="freeze", kind=Kind.STOP, slowdown=None)) == (
        "gpu-17 GPU 1 (rank 5) stopped the run at 00:16:30 UTC."
        " Restart the run without the node from the last checkpoint."
    )
    run = Who("gpt", None, None, None, None)
    stalled = replace(SLOW, who=run, kind=Kind.STOP, scope="run", slowdown=None, cause="unknown")
    assert headline(stalled) == (
        "Run gpt stands since 00:16:30 UTC, cause unknown. See which rank does not answer."
    )


@given(run=names, node=st.none() | names, link=st.none() | names, kind=st.sampled_from(Kind),
       cause=st.sampled_from(Cause), rank=st.none() | st.integers(0, 10**6))  # fmt: skip
def test_the_line_is_one_line_and_fits_a_telephone(
    run: str, node: str | None, link: str | None, kind: Kind, cause: Cause, rank: int | None
) -> None:
    who = Who(run, node, rank, None, link)
    line = headline(replace(SLOW, who=who, kind=kind, cause=str(cause)))

    assert len(line) <= LONGEST
    assert "00:16:30 UTC" in line
    assert all(each.isprintable() for each in line)


def test_place_and_cause_have_their_own_words() -> None:
    assert sureness(SLOW) == "Place: high (0.98). Cause: its GPU is too hot, high (0.93)."
    assert sureness(replace(SLOW, place_confidence=0.55)) == (
        "Place: low (0.55). Cause: its GPU is too hot, high (0.93), if this is the place."
    )
    assert sureness(replace(SLOW, cause="unknown", place_confidence=None)) == (
        "Place: unknown. Cause: unknown."
    )


def test_the_first_action_is_for_this_machine() -> None:
    _, command = first_action(SLOW)
    assert command == "kubectl cordon gpu-17 && kubectl drain gpu-17 --ignore-daemonsets"

    hostile = replace(SLOW, who=replace(SLOW.who, node="a; reboot"))
    assert "cordon 'a; reboot' " in first_action(hostile)[1]


COMPARE = ("Compare the node with a healthy one.", "")
STACKS = "ssh gpu-17 'lockstep dump gpt --stacks'"
STANDS = ("See where rank 5 stands.", STACKS)
PEERS = (
    "Bring the node to the image of its peers, or the peers back to the version that was faster."
)
RESTART = ("Restart the run without the node from the last checkpoint.", "")


@pytest.mark.parametrize(
    ("cause", "place", "action"),
    [
        ("unknown", 0.40, COMPARE),
        ("unknown", 0.98, COMPARE),
        ("checkpoint", 0.98, COMPARE),
        ("thermal", 0.40, ("Read temperatures and throttle reasons on the node.",
                           "ssh gpu-17 nvidia-smi -i 1 -q -d TEMPERATURE,PERFORMANCE,CLOCK")),
        ("software", 0.98, (PEERS, "")),
    ],
)  # fmt: skip
def test_no_node_is_drained_before_place_and_cause_are_known(
    cause: str, place: float, action: tuple[str, str]
) -> None:
    assert action == first_action(replace(SLOW, cause=cause, place_confidence=place))


@pytest.mark.parametrize(
    ("cause", "place", "action"),
    [
        ("freeze", None, RESTART),
        ("crash", 0.9, RESTART),
        ("freeze", 0.4, STANDS),
        *((cause, None, STANDS) for cause in ("unknown", "link", "xid", "nvlink", "checkpoint")),
        ("data", 0.98, STANDS),
        ("software", None, ("Mend the program, not the node: calls of rank 5 differ.", STACKS)),
    ],
)
def test_a_run_that_stands_has_no_next_checkpoint(
    cause: str, place: float | None, action: tuple[str, str]
) -> None:
    finding = replace(
        SLOW, kind=Kind.STOP, scope="rank", slowdown=None, cause=cause, place_confidence=place
    )

    assert action == first_action(finding)
    assert headline(finding).endswith(action[0])


def test_calls_that_differ_are_the_programs_fault_and_no_image_of_a_node() -> None:
    differs = replace(SLOW, kind=Kind.STOP, cause="software", place_confidence=None)

    assert "its program calls what the others do not, high (0.93)." in sureness(differs)


def test_names_of_runs_are_quoted_for_both_shells() -> None:
    stop = replace(SLOW, kind=Kind.STOP, cause="unknown")

    def words(run: str) -> list[str]:
        command = first_action(replace(stop, who=replace(SLOW.who, run=run)))[1]
        return shlex.split(shlex.split(command)[2])

    assert ["lockstep", "dump", "a'; reboot", "--stacks"] == words("a'; reboot")
    assert ["lockstep", "dump", "RUN", "--stacks"] == words("--help")


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_first_action(cause: Cause) -> None:
    for gpu in (None, 0):
        who = replace(SLOW.who, gpu=gpu)
        finding = replace(SLOW, cause=str(cause), who=who, place_confidence=0.5)
        assert first_action(finding)[0]
        assert len(sureness(finding)) <= LONGEST


@given(names, st.integers(10, 200))
def test_what_is_clipped_is_no_longer_than_asked(text: str, most: int) -> None:
    assert len(clipped(text, most)) <= most


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("kind", [Kind.HARDWARE, Kind.SLOW])
def test_nothing_is_taken_out_of_service_for_what_costs_nothing(cause: Cause, kind: Kind) -> None:
    record = replace(SLOW, kind=kind, cause=str(cause), tier=Tier.RECORD)
    text, command = first_action(record)

    assert text
    assert "drain" not in command
    assert "out of service" not in text


@pytest.mark.parametrize("number", sorted(PAGED))
def test_the_first_action_about_an_error_is_that_of_its_catalogue_and_awaits_no_checkpoint(
    number: int,
) -> None:
    error = replace(SLOW, kind=Kind.EVENT, cause="xid", slowdown=None, signature=f"xid {number}")
    lost = replace(error, signature=LOST)

    assert describe(number).advice == first_action(error)[0]
    assert "checkpoint" not in headline(error)
    assert "drain gpu-17" in first_action(lost)[1]
    assert "after the next checkpoint" not in first_action(lost)[0]


def test_a_gpu_that_is_gone_is_taken_out_now() -> None:
    gone = replace(SLOW, kind=Kind.EVENT, cause="xid", slowdown=None, signature="xid 79")

    assert (
        "kubectl cordon gpu-17 && kubectl drain gpu-17 --ignore-daemonsets"
        == (first_action(gone)[1])
    )


def test_a_run_whose_end_nobody_explains_does_not_stand() -> None:
    run = Who("gpt", None, None, None, None)
    ended = replace(SLOW, who=run, kind=Kind.STOP, scope="run", slowdown=None, cause="unknown",
                    tier=Tier.RECORD)  # fmt: skip

    assert headline(ended).startswith("Run gpt ended at 00:16:30 UTC, cause unknown.")
    assert "answer" not in headline(ended)
