"""The layout in words and in a meta file."""

import pytest

from lockstep.analyzer.read.optrace.layout import parse_layout, read_meta
from lockstep.analyzer.shapes.operations import Layout
from lockstep.analyzer.shapes.run import LoadError


def test_a_layout_in_words():
    assert Layout(4, 8, 2, 1, 3) == parse_layout("dp=4,pp=8,tp=2,dsp=1,vpp=3")
    assert Layout(dp=4) == parse_layout(" dp = 4 ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no part ''"),
        ("ep=2", "no part 'ep'"),
        ("dp=2,dp=3", "gives dp twice"),
        ("dp=0", "dp is '0'"),
        ("dp=-4", "dp is '-4'"),
        ("dp=two", "dp is 'two'"),
        ("dp", "dp is ''"),
        ("dp=99999999", "from 1 to 1000000"),
        ("dp=²", "dp is"),
        ("dp=" + "1" * 5000, "dp is '11111"),
    ],
)
def test_words_that_are_no_layout_are_refused(text, words):
    with pytest.raises(LoadError) as told:
        parse_layout(text)
    assert words in str(told.value)
    assert len(str(told.value)) < 200


def test_a_meta_file(tmp_path):
    path = tmp_path / "meta.yaml"
    path.write_text("trial_name: X\ndp_size: 4\npp_size: 2 # stages\ntp_size: 8\nworld_size: 64\n")

    assert Layout(dp=4, pp=2, tp=8) == read_meta(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp_size: 2\n", "lacks dp_size and pp_size"),
        ("dp_size: 4\npp_size: many\n", "pp_size is 'many'"),
        ("dp_size: 4\npp_size: 2\nworld_size: 9\n", "world_size is 9, but dp · pp · tp · dsp is 8"),
    ],
)
def test_a_meta_file_that_contradicts_itself_is_refused(tmp_path, text, words):
    path = tmp_path / "meta.yaml"
    path.write_text(text)
    with pytest.raises(LoadError) as told:
        read_meta(path)
    assert words in str(told.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_an_unreadable_meta_file_is_named(tmp_path, content):
    path = tmp_path / "meta.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LoadError, match=r"meta\.yaml is not a readable meta file"):
        read_meta(path)
