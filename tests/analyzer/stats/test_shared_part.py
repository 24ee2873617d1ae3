"""What all slow groups use and no healthy one: the part is named, or nothing is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.read.places import KINDS, places_of, read
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.stats.shared_part import Part, fewest_parts, part_of_nodes, parts_of_nodes

RACKS = {f"n{i}": {"leaf": f"l{i // 2}", "rack": f"r{i // 4}"} for i in range(16)}


def _groups(*names):
    return [frozenset(f"n{each}" for each in name) for name in names]


def test_a_node_in_all_slow_groups_and_in_no_healthy_one_is_named():
    found = fewest_parts(_groups([0, 4], [0, 8], [0, 12]), _groups([4, 8], [1, 12]), RACKS)

    assert ((Part("node", "n0"),),) == found


def test_a_leaf_is_named_where_no_node_explains_all_slow_groups():
    found = fewest_parts(_groups([0, 8], [1, 12]), _groups([8, 12], [2, 9]), RACKS)

    assert ((Part("leaf", "l0"),),) == found


def test_of_two_nodes_in_every_slow_group_both_are_possible():
    both = (Part("node", "n0"), Part("node", "n4"))

    assert (both,) == fewest_parts(_groups([0, 4]), _groups([8, 12]), RACKS)


def test_a_part_with_a_healthy_node_is_cleared():
    assert None is part_of_nodes(["n0", "n1"], ["n2", "n8", "n9"], {**RACKS, "n8": RACKS["n0"]})
    assert Part("leaf", "l0") == part_of_nodes(["n0", "n1"], ["n2", "n8", "n9"], RACKS)


@pytest.mark.parametrize(("slow", "healthy"), [(["n0"], ["n8", "n9"]), (["n0", "n1"], ["n9"])])
def test_one_slow_or_one_healthy_node_makes_no_rack(slow, healthy):
    assert None is part_of_nodes(slow, healthy, RACKS)


def test_nodes_that_stand_nowhere_known_share_nothing():
    assert None is part_of_nodes(["n0", "n1"], ["n2", "n3"], {})


def test_two_bad_leaves_are_both_named_and_not_each_of_their_nodes():
    slow, healthy = ["n0", "n1", "n8", "n9"], ["n2", "n3", "n10", "n11"]

    assert (Part("leaf", "l0"), Part("leaf", "l4")) == parts_of_nodes(slow, healthy, RACKS)
    assert None is part_of_nodes(slow, healthy, RACKS)


def test_a_slow_node_alone_in_its_leaf_leaves_the_others_unnamed():
    assert () == parts_of_nodes(["n0", "n1", "n8"], ["n2", "n9", "n10"], RACKS)


def test_groups_that_one_rack_explains_need_no_two_leaves():
    found = fewest_parts(_groups([0, 8], [2, 12]), _groups([8, 12], [4, 9]), RACKS)

    assert ((Part("rack", "r0"),),) == found


def test_two_faults_at_once_are_two_parts_and_what_cannot_be_told_apart_stands_together():
    found = fewest_parts(_groups([0, 4], [0, 8], [12, 13]), _groups([4, 8]), {})

    assert ((Part("node", "n0"),), (Part("node", "n12"), Part("node", "n13"))) == found


pairs = st.lists(
    st.frozensets(st.integers(0, 15), min_size=2, max_size=3), min_size=4, max_size=40, unique=True
)


@given(pairs, st.sampled_from(["node", *KINDS[:2]]), st.integers(0, 15))
def test_synthetic_transfers_over_a_bad_part_never_clear_it(groups, kind, node):
    """Transfers of a group are slow where one of its nodes uses the bad part."""
    bad = Part(kind, f"n{node}" if kind == "node" else RACKS[f"n{node}"][kind])
    users = {n for n in RACKS if bad in (Part("node", n), *map(Part, RACKS[n], RACKS[n].values()))}
    named = [frozenset(f"n{i}" for i in group) for group in groups]
    slow = [group for group in named if group & users]
    healthy = [group for group in named if not group & users]
    found = fewest_parts(slow, healthy, RACKS)

    order = ["node", *KINDS]
    # One part explains all of them; where it takes the first step, it is no wider than the truth.
    assert bool(slow) == bool(found)
    assert all(order.index(each[0].kind) <= order.index("rack") for each in found)
    if len(found) == 1:
        assert order.index(found[0][0].kind) <= order.index(kind)


@given(pairs, st.permutations(range(16)))
def test_renaming_nodes_renames_what_is_shared(groups, order):
    renamed = {f"n{i}": f"m{order[i]:02d}" for i in range(16)}
    half = len(groups) // 2
    slow, healthy = _groups(*groups[:half]), _groups(*groups[half:])
    there = {renamed[node]: places for node, places in RACKS.items()}

    def again(parts):
        return [frozenset(renamed[node] for node in group) for group in parts]

    # Which of equals comes first hangs on names; whether all are explained does not.
    assert bool(fewest_parts(slow, healthy, RACKS)) == bool(
        fewest_parts(again(slow), again(healthy), there)
    )


def test_nodes_that_share_their_storage_alone_stand_nowhere_together():
    """A power cap on both is no storage's doing, and they can be drained."""
    stores = {f"n{i}": {"storage": f"nfs-{i // 2}"} for i in range(4)}

    assert None is part_of_nodes(["n0", "n1"], ["n2", "n3"], stores)


def test_a_topology_file_is_read(tmp_path):
    path = tmp_path / "topology.toml"
    path.write_text('[rack]\nr1 = ["a", "b"]\n[leaf]\nl1 = ["a"]\n')
    told = read(path)

    assert {"a": {"leaf": "l1", "rack": "r1"}, "b": {"rack": "r1"}} == {
        node: dict(each) for node, each in told.items()
    }
    assert told == places_of({"topology": told})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rack", "is no TOML"),
        ("[building]\nx = []", r"\[building\] is not one of the tables leaf, rack, storage"),
        ("[rack]\nr1 = 3", "rack.r1 must be a list of node names"),
        ('[rack]\nr1 = ["a"]\nr2 = ["a"]', "a is in rack r1 and in rack r2"),
    ],
)
def test_a_file_that_is_no_topology_is_refused(tmp_path, text, words):
    path = tmp_path / "topology.toml"
    path.write_text(text)

    with pytest.raises(LoadError, match=words):
        read(path)


@pytest.mark.parametrize("meta", [{}, {"topology": 3}, {"topology": {"a": 3, "b": {"rack": 4}}}])
def test_meta_of_another_shape_places_nobody(meta):
    assert not any(places_of(meta).values())


@given(slow=pairs, healthy=pairs)
def test_whatever_is_found_explains_every_slow_group_and_touches_no_healthy_one(slow, healthy):
    bad, good = (_groups(*some) for some in (slow, healthy))
    found = fewest_parts(bad, good, RACKS)
    used = [{Part("node", n), *(Part(k, v) for k, v in RACKS[n].items())} for g in good for n in g]

    assert not [part for each in found for part in each if any(part in one for one in used)]
    for group in bad if found else ():
        mine = {part for n in group for part in (Part("node", n), *(
            Part(kind, name) for kind, name in RACKS[n].items()))}  # fmt: skip
        assert any(mine & set(each) for each in found)
