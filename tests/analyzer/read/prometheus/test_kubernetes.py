"""Leaf and rack from Kubernetes: the same places as topology.toml says, and the same verdict."""

import numpy as np
import pytest

from lockstep.analyzer.read.places import merged, places_of, read
from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.kubernetes import LABELS, places, series_label, with_own
from lockstep.analyzer.read.prometheus.load import load_prometheus
from tests.analyzer.read.prometheus.fake import NOW

TOPOLOGY = """
[leaf]
leaf-7 = ["node-0", "node-1"]
leaf-8 = ["node-2"]

[rack]
r12 = ["node-0", "node-1", "node-2"]
"""
LEAF, RACK = "label_network_topology_nvidia_com_leaf", "label_topology_kubernetes_io_rack"


def _told(node, ago=30.0, **labels):
    at = np.array([round((NOW - ago) * 1000)])
    words = {"__name__": "kube_node_labels", "job": "kube-state-metrics", "instance": "k:8080"}
    return ({**words, "node": node, **labels}, at, np.ones(1))


@pytest.fixture
def cluster(fake):
    fake.series = [
        _told("node-0", **{LEAF: "leaf-7", RACK: "r12"}),
        _told("node-1", **{LEAF: "leaf-7", RACK: "r12"}),
        _told("node-2", **{LEAF: "leaf-8", RACK: "r12"}),
    ]
    return fake


def _places(fake, labels=LABELS):
    with Connection(access(fake.url, {})) as connection:
        return places(connection, NOW, labels)


def test_node_labels_say_the_same_as_the_file(cluster, tmp_path):
    (tmp_path / "topology.toml").write_text(TOPOLOGY)

    assert read(tmp_path / "topology.toml") == _places(cluster)


def test_a_run_that_is_loaded_knows_where_its_nodes_stand(fake, stored, synthetic):
    samples = synthetic().run().samples
    ago = NOW - samples["time"].max() + 30.0
    labels = _told("node-1", ago, **{LEAF: "leaf-7", RACK: "r12"})
    fake.series = [labels, *stored(samples, "r", 8)]
    loaded = load_prometheus(fake.url, "r", environment={})

    assert {"leaf": "leaf-7", "rack": "r12"} == places_of(loaded.meta)["node-1"]


def test_a_label_of_ones_own_counts_before_the_usual_ones(cluster):
    cluster.series.append(_told("node-3", label_example_com_switch="s1", **{LEAF: "leaf-9"}))

    assert {"leaf": "s1"} == _places(cluster, with_own(["leaf=example.com/switch"]))["node-3"]
    assert {"leaf": "leaf-9"} == _places(cluster)["node-3"]


def test_the_node_is_that_of_the_page_and_not_the_one_it_was_scraped_on(cluster):
    cluster.series.append(_told("monitoring-1", exported_node="node-4", **{RACK: "r13"}))

    assert {"rack": "r13"} == _places(cluster)["node-4"]
    assert "monitoring-1" not in _places(cluster)


def test_labels_that_nobody_told_lately_are_not_used(fake):
    fake.series = [_told("node-0", ago=7200.0, **{RACK: "r1"})]

    assert {} == _places(fake)


def test_the_file_counts_where_both_tell():
    ours, theirs = {"a": {"leaf": "x", "rack": "r"}}, {"a": {"leaf": "y"}, "b": {"rack": "r"}}

    assert {"a": {"leaf": "y", "rack": "r"}, "b": {"rack": "r"}} == merged(ours, theirs)


@pytest.mark.parametrize("word", ["leaf", "leaf=", "switch=x", "=x"])
def test_a_node_label_that_is_no_pair_is_refused(word):
    with pytest.raises(RequestError, match="must be KIND=LABEL, KIND one of leaf, rack, storage"):
        with_own([word])


def test_labels_are_written_as_kube_state_metrics_writes_them():
    assert "label_oci_oraclecloud_com_rdma_local_block_id" == series_label(
        "oci.oraclecloud.com/rdma.local_block_id"
    )
    assert "label_example_com_rack_number" == series_label("example.com/rackNumber")


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("backend.coreweave.cloud/leafgroup", "leaf"),
        ("ds.coreweave.com/nvlink.domain", "rack"),
        ("network.topology.kubernetes.io/block", "leaf"),
        ("network.topology.kubernetes.io/accelerator", "rack"),
        ("cloud.google.com/gce-topology-subblock", "leaf"),
        ("cloud.google.com/gce-topology-subblock", "rack"),
        ("oci.oraclecloud.com/rdma.local_block_id", "leaf"),
        ("oci.oraclecloud.com/host.gpu_memory_fabric_id", "rack"),
        ("topology.k8s.aws/network-node-layer-3", "leaf"),
        ("topology.k8s.aws/ultraserver-id", "rack"),
    ],
)
def test_the_labels_of_clouds_say_where_a_node_stands(fake, label, kind):
    fake.series = [_told("node-0", **{series_label(label): "x-7"})]

    assert "x-7" == _places(fake)["node-0"][kind]


def test_a_value_that_no_label_can_have_is_told_and_no_place(fake, caplog):
    fake.series = [
        _told("node-0", **{LEAF: "leaf\u0667", RACK: "r12"}),
        _told("node-1", **{LEAF: "leaf 7"}),
    ]

    assert {"node-0": {"rack": "r12"}} == _places(fake)
    assert "2 node labels hold what no label can" in caplog.text
