"""The catalogue of XIDs: whole, as its sources say, honest about what it does not know."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.contract.xid import (
    DEFAULT,
    POLICIES,
    XIDS,
    Action,
    Bucket,
    Detail,
    Severity,
    describe,
    detail,
)
from collector.contract.xid.catalogue import ACTIONS, ADVICE, ADVICE_OF, BUCKETS, TEXTS, UNUSED


def test_every_number_of_the_catalogue_has_a_row_and_no_number_two_buckets():
    numbers = [number for numbers in BUCKETS.values() for number in numbers]

    assert [*range(1, 173)] == [*XIDS]
    assert len(numbers) == len(set(numbers))
    assert set(TEXTS) == set(numbers)
    assert set(Bucket) == set(ADVICE) == set(ACTIONS)
    assert {XIDS[number].bucket for number in ADVICE_OF} == {Bucket.UNRATED}
    assert all(row.advice and row.text for row in XIDS.values())


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
    assert (Bucket.CONTACT_SUPPORT, Severity.FATAL) == (row.bucket, row.severity)


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
    assert Action.CONTACT_SUPPORT == detail(154, text.format("0x3 (Drain P2P)")).action
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


def test_a_graphics_exception_tells_its_place():
    text = "Graphics SM Warp Exception on (GPC 7, TPC 0, SM 1): Out Of Range Address"

    assert Detail(place=(7, 0, 1)) == detail(13, text)


def test_an_nvlink_error_tells_its_link():
    text = "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"

    assert Detail(link=14) == detail(74, text)
    assert Detail() == detail(74, "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000)")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 200), st.text(max_size=80))
def test_no_text_is_too_odd(xid, text):
    assert isinstance(detail(xid, f"RLW Fatal XC0 i0 Link 1 (0x1 0x2 {text}"), Detail)
    assert isinstance(detail(xid, f"recovery action changed from {text} to 0x1 ({text})"), Detail)
    assert isinstance(detail(xid, f"link 1({text}"), Detail)
