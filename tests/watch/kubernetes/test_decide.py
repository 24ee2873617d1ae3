"""When something is decided at all, and what conditions say."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.kubernetes import CONDITIONS, HEALTHY, Family
from lockstep.collector.contract.words import FAMILY, Cause
from lockstep.watch.kubernetes.applying import events, status_patch
from lockstep.watch.kubernetes.conditions import MANY, MAX_FAULTS, MAX_MESSAGE
from lockstep.watch.kubernetes.decide import decide
from lockstep.watch.kubernetes.shapes import (
    OLDER,
    Breaker,
    Condition,
    Fault,
    Known,
    Mode,
    Node,
    Settings,
    State,
    Status,
    WatchState,
    Write,
)
from tests.watch.kubernetes.world import START, applied, fault, nodes, told

SETTINGS = Settings()
NODES = nodes(10)
NAMES = [node.name for node in NODES]
GOOD = told(START, NAMES, {"n1": (fault("xid"),)})


def _writes(page: WatchState | None, settings: Settings = SETTINGS, state: State | None = None):  # type: ignore[no-untyped-def]
    return decide(NODES, page, state or State(), START, settings)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (None, "watch does not answer"),
        (replace(GOOD, answered=False), "watch gets no answer from its Prometheus"),
        (replace(GOOD, judged=START - 121), "the last cycle of watch was 121 s ago"),
        (replace(GOOD, judged=START + 121), "the last cycle of watch was -121 s ago"),
        (replace(GOOD, judged=float("-inf")), "the last cycle of watch was inf s ago"),
        (replace(GOOD, judged=float("nan")), "the last cycle of watch was nan s ago"),
        (replace(GOOD, data_age=121.0), "the newest scrape that watch judged is old"),
        (replace(GOOD, data_age=float("nan")), "the newest scrape that watch judged is old"),
        (told(START, NAMES[:7]), "only 7 of 10 nodes answer"),
        (told(START, []), "only 0 of 10 nodes answer"),
    ],
)
def test_without_knowledge_nothing_is_done(page: WatchState | None, why: str) -> None:
    found = _writes(page)

    assert ((), why) == (found.actions, found.held)


def test_while_a_human_pauses_it_nothing_is_done() -> None:
    assert ((), "paused: x") == (
        _writes(GOOD, Settings(paused="paused: x")).actions,
        _writes(GOOD, Settings(paused="paused: x")).held,
    )


def test_without_nodes_it_says_so() -> None:
    assert "no node may be touched" == decide([], GOOD, State(), START, SETTINGS).held


def test_what_is_the_runs_own_doing_makes_no_condition_of_a_node() -> None:
    assert not {Cause.GC, Cause.CHECKPOINT, Cause.SOFTWARE} & FAMILY.keys()
    assert Family.STRAGGLER is FAMILY[Cause.UNKNOWN]


@pytest.mark.parametrize("cause", sorted(FAMILY))
def test_a_fault_makes_its_family_true_and_the_summary_false(cause: str) -> None:
    page = told(START, NAMES, {"n1": (fault(cause),)})

    (write,) = [one for one in _writes(page).actions if one.node.name == "n1"]

    bad = {name for name, one in write.conditions.items() if one.status is Status.TRUE}
    assert {FAMILY[Cause(cause)].value} == bad
    assert Status.FALSE is write.conditions[HEALTHY].status


def test_on_a_single_node_the_breaker_does_not_open() -> None:
    page = told(START, ["n0"], {"n0": (fault("xid"),)})

    assert 1 == len(decide(nodes(1), page, State(), START, SETTINGS).actions)


def test_more_than_half_of_the_nodes_open_the_breaker_and_half_do_not() -> None:
    for count, is_open in ((5, False), (6, True)):
        page = told(START, NAMES, {name: (fault("thermal"),) for name in NAMES[:count]})
        assert is_open is _writes(page).state.breaker.open


def test_several_faults_of_a_node_end_one_by_one() -> None:
    node, state, now = NODES[1], State(), START
    both = (fault("xid"), fault("thermal"))
    seen = []
    for faults, seconds in ((both, 0), (both[1:], 10), (both[1:], 901), ((), 1), ((), 901)):
        now += seconds
        decision = decide([node], told(now, ["n1"], {"n1": faults}), state, now, SETTINGS)
        state, node = decision.state, applied(node, decision)
        seen.append((len(node.faults), node.conditions[Family.GPU].status))

    true = Status.TRUE
    assert [(2, true), (2, true), (1, true), (1, true), (0, Status.FALSE)] == seen


def test_a_fault_that_comes_and_goes_within_the_wait_is_told_once() -> None:
    node, state, now, news = NODES[1], State(), START, 0
    for on in [True, False] * 20:
        now += 60
        page = told(now, ["n1"], {"n1": (fault("xid"),) if on else ()})
        decision = decide([node], page, state, now, SETTINGS)
        state, node = decision.state, applied(node, decision)
        news += sum(len(events(one, now, dry_run=False)) for one in decision.actions)  # type: ignore[arg-type]

    assert 1 == news


TEXT = st.text(max_size=400)


@given(name=st.sampled_from(["n", "a" * 253, "x." * 126 + "y"]),
       faults=st.lists(st.builds(Fault, TEXT, st.sampled_from(sorted(FAMILY)), TEXT, TEXT, TEXT,
                                 TEXT), max_size=90))  # fmt: skip
def test_whatever_watch_names_the_api_gets_what_it_takes(name: str, faults: list[Fault]) -> None:
    node = Node(name, "u", "1")
    page = told(START, [name], {name: tuple(faults)})

    for one in decide([node], page, State(), START, SETTINGS).actions:
        assert isinstance(one, Write)
        assert len(one.faults) <= MAX_FAULTS
        body = status_patch(one, node)
        assert set(CONDITIONS) == {each["type"] for each in body["status"]["conditions"]}
        for each in body["status"]["conditions"]:
            assert len(each["message"]) <= MAX_MESSAGE
            assert each["message"].isprintable()
            assert each["reason"].isalnum()
        assert len(body["metadata"]["annotations"]["lockstep.example/faults"]) < 200_000
        for event in events(one, START, dry_run=True):
            assert len(event["metadata"]["name"]) <= 253
            assert len(event["message"]) <= MAX_MESSAGE


def test_taints_are_decided_in_their_mode_only() -> None:
    for mode in (Mode.OBSERVE, Mode.ANNOTATE):
        assert {Write} == {type(one) for one in _writes(GOOD, Settings(mode=mode)).actions}


def test_a_fault_that_is_older_than_a_reset_makes_its_family_unknown_and_never_healthy() -> None:
    good = Condition(Status.FALSE, "NothingFound", "", START, START)
    node = replace(NODES[1], conditions=dict.fromkeys(CONDITIONS, good))
    state = State(Breaker(False, START + 1, "reset"), first={("uid-1", "xid-0"): START})
    now, seen = START, []
    xid = (fault("xid"),)
    for faults, seconds in ((xid, 2), (xid, 1000), ((), 10), (xid, 10), ((), 10), ((), 901)):
        now += seconds
        decision = decide([node], told(now, ["n1"], {"n1": faults}), state, now, SETTINGS)
        state, node = decision.state, applied(node, decision)
        gpu, healthy = node.conditions[Family.GPU], node.conditions[HEALTHY]
        seen.append((gpu.status.value, gpu.reason, healthy.status.value))

    assert [
        ("Unknown", OLDER, "Unknown"),
        ("Unknown", OLDER, "Unknown"),
        ("Unknown", OLDER, "Unknown"),  # gone for a moment is not over
        ("True", "Xid", "False"),  # it came back, after the reset
        ("True", "Xid", "False"),
        ("False", "NothingFound", "True"),
    ] == seen


RESET = Breaker(False, START, "reset")


@pytest.mark.parametrize("breaker", [RESET, Breaker()])  # the lease may be lost too
@pytest.mark.parametrize("blind", [False, True])
def test_a_restart_does_not_forget_what_is_older_than_a_reset(
    breaker: Breaker, blind: bool
) -> None:
    there, now, page = nodes(4), START, {}
    first = {}
    for node in there[:3]:  # more than half: if they were new, the breaker would open again
        page[node.name] = (fault("xid"),)
        first[node.uid, "xid-0"] = START - 1
    state, names = State(RESET, first=first), [node.name for node in there]

    def look() -> list[str]:
        nonlocal state, there, now
        now += 60
        decision = decide(there, told(now, names, page), state, now, SETTINGS)
        assert "" == decision.held
        state, there = decision.state, [applied(node, decision) for node in there]
        return [node.conditions[Family.GPU].reason for node in there[:3]]

    assert [OLDER] * 3 == look()
    state = State(breaker)
    if blind:
        state = decide(there, None, state, now, SETTINGS).state
    assert [OLDER] * 3 == look()
    assert [OLDER] * 3 == look()
    assert [{}] * 4 == [node.faults for node in there]

    state = decide(there, None, state, now, SETTINGS).state  # a look that tells nothing
    page["n0"] = (fault("xid"), fault("xid", 1))
    page["n3"] = (fault("ecc"),)
    assert ["Xid", OLDER, OLDER] == look()
    assert ["xid-1"] == list(there[0].faults), "what is new is written"
    assert ["ecc-0"] == list(there[3].faults)


def test_more_faults_than_are_written_leave_no_family_healthy() -> None:
    many = tuple(fault("ecc", each) for each in range(MAX_FAULTS))
    page = told(START, ["n1"], {"n1": (*many, fault("nvlink"))})

    (write,) = decide([NODES[1]], page, State(), START, SETTINGS).actions

    assert isinstance(write, Write)
    assert MANY == write.conditions[Family.NVLINK].reason
    assert Status.UNKNOWN is write.conditions[Family.NVLINK].status


@pytest.mark.parametrize(
    ("count", "heard", "goes_on"),
    [(1, 1, True), (1, 0, False), (2, 1, True), (2, 0, False), (3, 2, True), (3, 1, False),
     (4, 3, True), (4, 2, False), (5, 4, True), (5, 3, False), (9, 8, True), (9, 7, False),
     (10, 8, True), (10, 7, False), (100, 80, True), (100, 79, False)],
)  # fmt: skip
def test_a_fifth_of_the_nodes_may_be_silent_and_always_one_of_several(
    count: int, heard: int, goes_on: bool
) -> None:
    page = told(START, [f"n{each}" for each in range(heard)])

    held = decide(nodes(count), page, State(), START, SETTINGS).held
    assert goes_on == (not held), held


def test_while_too_few_are_heard_the_silent_become_unknown_and_nothing_else_is_written() -> None:
    good = Condition(Status.FALSE, "NothingFound", "", START, START)
    bad = replace(good, status=Status.TRUE)
    there = [replace(one, conditions=dict.fromkeys(CONDITIONS, good)) for one in nodes(4)]
    known = {"xid-0": Known(START, "xid", "", "xid")}
    conditions = {**there[3].conditions, Family.GPU: bad}
    there[3] = replace(there[3], faults=known, conditions=conditions)
    state, now, wrote = State(), START, []
    for _ in range(4):
        now += 60
        page = told(now, ["n0"], {"n0": (fault("xid"),), "n2": (fault("nvlink"),)})
        decision = decide(there, page, state, now, SETTINGS)
        state = decision.state
        there = [applied(node, decision) for node in there]
        wrote.append([one.node.name for one in decision.actions])
        assert "only 1 of 4 nodes answer" == decision.held

    # One page that says nothing about a node is no proof, and a heartbeat comes later.
    assert [[], [], ["n1", "n2", "n3"], []] == wrote
    assert {Status.FALSE} == {one.status for one in there[0].conditions.values()}
    assert {Status.UNKNOWN} == {one.status for one in there[1].conditions.values()}
    assert known == there[3].faults
    assert Status.TRUE is there[3].conditions[Family.GPU].status
    assert Status.FALSE is there[3].conditions[HEALTHY].status
    assert Status.UNKNOWN is there[3].conditions[Family.RDMA].status
