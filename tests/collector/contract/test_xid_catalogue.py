"""The catalogue of XIDs: whole, as its sources say, honest about what it does not know."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract.xid import (
    BY_LINE,
    NOT_OF_HARDWARE,
    PAGED,
    REPEATED,
    XIDS,
    describe,
    judged,
    listed,
    selector,
)
from lockstep.collector.contract.xid_catalogue.detail import Detail, detail
from lockstep.collector.contract.xid_catalogue.policy import (
    ACTIONS,
    ADVICE,
    ADVICE_OF,
    DEFAULT,
    POLICIES,
)
from lockstep.collector.contract.xid_catalogue.rows import ROWS, UNUSED
from lockstep.collector.contract.xid_catalogue.shape import (
    Action,
    Bucket,
    Fault,
    Judgement,
    Part,
    Repeats,
    Severity,
)


def test_every_number_up_to_that_of_the_newest_driver_has_one_row():
    assert [*range(1, 177)] == [row.number for row in ROWS] == [*XIDS]
    assert set(Bucket) == set(ADVICE) == set(ACTIONS)
    assert {XIDS[number].bucket for number in ADVICE_OF} == {Bucket.UNRATED}
    assert all(row.advice and row.text for row in XIDS.values())
    assert all(row.name for row in XIDS.values() if row.text != UNUSED)
    assert all((row.text == UNUSED) <= (row.fault is Fault.UNKNOWN) for row in XIDS.values())


def test_what_pages_is_what_has_to_be_reset_or_restarted_and_what_nvlink_and_the_driver_say():
    restarts = {Action.COMPONENT_RESET, Action.RESTART_BM, Action.RESTART_VM}
    paged = {number for number, row in XIDS.items() if row.action in restarts}

    assert paged | {74, *range(144, 151), 154} | {167, 169, 173, 175} == set(PAGED)
    assert {48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 149, 154} < set(PAGED)
    assert not {63, 94, 13, 31, 43, 45, 174, 176} & set(PAGED)
    assert {number for number in PAGED if number != 154} == {
        number for number, row in XIDS.items() if row.severity is Severity.FATAL
    }


def test_errors_that_work_survives_are_told_the_second_time():
    assert {Repeats.CONTAINED: (63, 94), Repeats.APPLICATION: (13, 31)} == REPEATED
    assert not BY_LINE.intersection(
        (*REPEATED[Repeats.CONTAINED], *REPEATED[Repeats.APPLICATION])
    ), "the rules of a day do not ask severity"


def test_the_newest_xids_are_known():
    assert "ROBUST_CHANNEL_RESETCHANNEL_KILL_PROCESS_SILENT" == describe(174).name
    assert (Severity.FATAL, Part.MEMORY) == (describe(175).severity, describe(175).part)
    assert (Severity.WARNING, Part.PCIE) == (describe(176).severity, describe(176).part)


def test_a_program_s_own_xids_say_nothing_of_the_hardware():
    assert {13, 31, 43, 45} < set(NOT_OF_HARDWARE)
    assert not set(NOT_OF_HARDWARE) & set(PAGED)


def test_severity_fault_and_action_are_those_of_the_line():
    changed = "GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 ({})".format
    nvlink = "NETIR_LINK_EVT  {}   XC0 i0 Link 01 (0x021425c6 0x00000000)".format
    reset, hardware = Action.COMPONENT_RESET, Fault.HARDWARE

    for word, severity, action in (
        ("Fatal", Severity.FATAL, reset), ("Link Fatal", Severity.FATAL, reset),
        ("Nonfatal", Severity.WARNING, None),
    ):  # fmt: skip
        told = Judgement(severity, hardware, action, by_line=True)
        assert told == judged(149, nvlink(word)) == judged(149, f"NVRM: Xid …: 149, {nvlink(word)}")
    assert Judgement(Severity.FATAL, hardware, None) == judged(149, "")
    assert Severity.FATAL is judged(154, changed("GPU Reset Required")).severity
    assert Severity.FATAL is judged(154, changed("Drain P2P")).severity
    assert Severity.INFO is judged(154, changed("None")).severity
    assert Severity.WARNING is judged(154, "").severity
    assert Severity.WARNING is judged(45, "pid=1, name=a, Ch 1").severity


def test_an_xid_that_follows_another_one_is_its_consequence_and_not_the_application_s():
    said = judged(45, "pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149")

    assert Judgement(Severity.INFO, Fault.CONSEQUENCE, Action.NONE, 149, by_line=True) == said
    assert Part.NVLINK is describe(said.caused_by).part


def test_a_selector_leaves_out_only_what_says_that_it_is_not_fatal():
    assert 'xid=~"48|79"' == selector((48, 79))
    assert 'xid=~"48|79",severity!~"info|warning"' == selector((48, 79), fatal=True)


@pytest.mark.parametrize(("numbers", "words"), [
    ((5,), "5"), ((7, 5), "5 and 7"), ((5, 6), "5, 6"), ((1, 5, 6, 7, 9), "1, 5 to 7 and 9"),
])  # fmt: skip
def test_numbers_are_listed_for_people(numbers, words):
    assert words == listed(numbers)


def test_each_xid_of_which_the_line_decides_has_a_line_that_does():
    assert {45, 74, *range(144, 151), 154} == BY_LINE


@pytest.mark.parametrize(("number", "bucket", "action", "fatal"), [
    (31, Bucket.RESTART_APP, Action.NONE, False),
    (63, Bucket.IGNORE, Action.NONE, False),
    (95, Bucket.RESET_GPU, Action.COMPONENT_RESET, True),
    (48, Bucket.WORKFLOW_XID_48, Action.COMPONENT_RESET, True),
    (45, Bucket.WORKFLOW_XID_45, Action.CONTACT_SUPPORT, True),
    (54, Bucket.CHECK_MECHANICALS, Action.CONTACT_SUPPORT, True),
    (74, Bucket.WORKFLOW_NVLINK, None, True),
    (149, Bucket.WORKFLOW_NVLINK5, None, True),
    (79, Bucket.RESTART_BM, Action.RESTART_BM, True),
    (151, Bucket.RESTART_VM, Action.RESTART_VM, True),
    (154, Bucket.XID_154, None, None),
    (142, Bucket.CONTACT_SUPPORT, Action.CONTACT_SUPPORT, True),
    (171, Bucket.UNRATED, None, None),
])  # fmt: skip
def test_bucket_action_and_fatality_are_those_of_the_catalogue(number, bucket, action, fatal):
    row = describe(number)

    assert (bucket, action, fatal) == (row.bucket, row.action, row.fatal)


def test_codes_of_older_gpus_say_so_and_go_to_support():
    row = describe(61)

    assert (UNUSED, Bucket.CONTACT_SUPPORT) == (row.text, row.bucket)


def test_an_unknown_xid_is_for_support_and_does_not_pretend_to_be_known():
    row = describe(4711)

    assert ("not in the catalogue", "none", "", "") == (row.text, row.source, row.dcgm, row.gpud)
    assert (Bucket.CONTACT_SUPPORT, Severity.WARNING) == (row.bucket, row.severity)


def test_the_default_policy_has_a_name_and_the_sources_may_disagree():
    bucket = describe(63).bucket

    assert DEFAULT in POLICIES
    assert {"nvidia": "info", "dcgm": "warning", "gpud": "fatal"} == {
        name: policy(63, bucket) for name, policy in POLICIES.items()
    }


def test_the_recovery_action_is_the_last_parenthesis():
    text = "GPU recovery action changed from 0x0 (None) to {}"

    assert Action.COMPONENT_RESET == detail(154, text.format("0x1 (GPU Reset Required)")).action
    assert Action.COMPONENT_RESET == detail(154, text.format("0x4 (Drain and Reset)")).action
    assert Action.RESTART_BM == detail(154, text.format("0x2 (Node Reboot Required)")).action
    assert Action.NONE == detail(154, text.format("0x0 (None)")).action
    assert Action.DRAIN_P2P == detail(154, text.format("0x3 (Drain P2P)")).action
    assert (
        Action.RECOVER_IMEX_DOMAIN == detail(154, text.format("0x5 (Recover IMEX  Domain)")).action
    )
    assert Action.CONTACT_SUPPORT == detail(154, text.format("0x9 (Say a Prayer)")).action
    assert None is detail(154, "GPU recovery action changed").action


def test_an_error_of_nvlink_5_tells_component_severity_and_link():
    nonfatal = "145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 0x00000008 0x00000000 …)"
    fatal = (
        "149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000 0x00000000 0x00000000"
        " 0x00000000 0x00000000)"
    )
    whole_gpu = "149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000 0x00000000)"

    told = detail(145, nonfatal)
    assert ("RLW_SRC_TRACK", False, 10) == (told.component, told.fatal, told.link)
    told = detail(149, fatal)
    assert (Action.COMPONENT_RESET, 0) == (told.action, told.link)
    assert (None, "NETIR") == (detail(149, whole_gpu).link, detail(149, whole_gpu).component)


@pytest.mark.parametrize(("text", "link"), [
    ("145, RLW_REMAP Nonfatal XC0 i0 Link 02", 2), ("145, RLW_REMAP Nonfatal XC0 i0 Link 1", None),
    ("145, RLW_REMAP  Nonfatal   XC0  i0  Link  17  (0x0", 17),
    ("145, RLW_REMAP Nonfatal XC0 i0 Link -1", None),
])  # fmt: skip
def test_registers_may_be_cut_off_and_blanks_be_several(text, link):
    told = detail(145, text)

    assert ("RLW_REMAP", False, link) == (told.component, told.fatal, told.link) or (
        Detail() == told and link is None
    )


def test_a_graphics_exception_tells_its_place():
    text = "Graphics SM Warp Exception on (GPC 7, TPC 0, SM 1): Out Of Range Address"

    assert Detail(place=(7, 0, 1)) == detail(13, text)


def test_an_nvlink_error_tells_its_link():
    text = "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"

    assert Detail(link=14, fatal=True) == detail(74, text)
    assert Detail(fatal=True) == detail(74, "NVLink: fatal error detected on link 14(0x0, 0x0)")


def test_an_nvlink_error_of_an_older_driver_has_no_registers():
    plain = "pid='<unknown>', name=<unknown>, NVLink: {} error detected on link 1"

    assert Detail(link=1, fatal=True) == detail(74, plain.format("fatal"))
    assert Detail(link=1, fatal=False) == detail(74, plain.format("non-fatal"))
    assert Severity.WARNING is judged(74, plain.format("non-fatal")).severity
    assert Detail(link=3) == detail(74, "NVLink: Failed to train link 3 to remote PCI:0000:05:00")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 200), st.text(max_size=80))
def test_no_text_is_too_odd(xid, text):
    assert isinstance(detail(xid, f"RLW Fatal XC0 i0 Link 1 (0x1 0x2 {text}"), Detail)
    assert isinstance(detail(xid, f"recovery action changed from {text} to 0x1 ({text})"), Detail)
    assert isinstance(detail(xid, f"link 1({text}"), Detail)
