"""What the chart renders is what the Kubernetes API takes, in every version and with all values."""

import functools
import re

import jsonschema
import kubernetes_validate
import pytest

from tests.deploy.chart.chart import Manifest, key, objects, pods, values_files
from tests.deploy.chart.custom_resources import SCHEMAS

VERSIONS = [f"1.{minor}" for minor in range(27, 38)]
MATRIX = values_files()
# RFC 1123 label, and label values: https://kubernetes.io/docs/concepts/overview/working-with-objects
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?")


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Manifest]]:
    return {name: objects(values) for name, values in MATRIX.items()}


@pytest.fixture(autouse=True, scope="module")
def each_schema_is_read_once():
    utils = kubernetes_validate.utils
    read, utils.schema_contents = utils.schema_contents, functools.cache(utils.schema_contents)
    yield
    utils.schema_contents = read


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_object_of_its_own(rendered, version: str):
    seen, unknown = [], set()
    for each in (each for manifests in rendered.values() for each in manifests):
        # Texts of ConfigMaps are megabytes, and any text is right.
        each = each | {"data": {}} if each["kind"] == "ConfigMap" else each
        if each not in seen:
            seen.append(each)
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except kubernetes_validate.SchemaNotFoundError:
                unknown.add(each["kind"])

    assert set(SCHEMAS) == unknown


def test_an_unknown_field_of_an_object_is_noticed(rendered):
    wrong = next(each for each in rendered["default"] if each["kind"] == "DaemonSet")
    wrong = wrong | {"spec": wrong["spec"] | {"replica": 1}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.30", strict=True)


@pytest.mark.parametrize("name", MATRIX)
def test_the_operator_takes_its_objects(rendered, name: str):
    for each in rendered[name]:
        if each["kind"] in SCHEMAS:
            jsonschema.validate(each, SCHEMAS[each["kind"]])


@pytest.mark.parametrize("change", [
    {"podMetricsEndpoints": []},
    {"podMetricsEndpoints": [{"port": "metrics", "interval": "5 minutes"}]},
    {"podMetricsEndpoint": []},
])  # fmt: skip
def test_a_wrong_object_of_the_operator_is_noticed(rendered, change):
    right = next(each for each in rendered["default"] if each["kind"] == "PodMonitor")

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(right | {"spec": right["spec"] | change}, SCHEMAS["PodMonitor"])


@pytest.mark.parametrize("name", MATRIX)
def test_names_and_labels_are_ones_that_the_api_takes(rendered, name: str):
    for each in rendered[name]:
        metadata = each["metadata"]
        assert NAME.fullmatch(metadata["name"]), key(each)
        templates = [template["metadata"] for _, template in pods([each])]
        for labels in (part.get("labels", {}) for part in (metadata, *templates)):
            assert all(LABEL_KEY.fullmatch(word) for word in labels), key(each)
            assert all(LABEL.fullmatch(value) for value in labels.values()), key(each)


@pytest.mark.parametrize("name", MATRIX)
def test_no_object_is_rendered_twice_and_each_says_whose_it_is(rendered, name: str):
    keys = [key(each) for each in rendered[name]]

    assert sorted(set(keys)) == sorted(keys)
    for each in rendered[name]:
        labels = each["metadata"]["labels"]
        assert {"lockstep", "Helm"} == {
            labels["app.kubernetes.io/name"], labels["app.kubernetes.io/managed-by"],
        }  # fmt: skip


@pytest.mark.parametrize("name", MATRIX)
def test_every_selector_finds_the_pods_that_it_means(rendered, name: str):
    labelled = [template["metadata"]["labels"] for _, template in pods(rendered[name])]
    for each in rendered[name]:
        spec = each.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        # The Service of a dcgm-exporter selects somebody else's pods.
        if selector and each["metadata"]["name"] != "lockstep-dcgm-exporter":
            wanted = selector.get("matchLabels", selector).items()
            found = [labels for labels in labelled if wanted <= labels.items()]
            component = each["metadata"]["labels"]["app.kubernetes.io/component"]
            assert [component] == [one["app.kubernetes.io/component"] for one in found], key(each)


def test_dashboards_fit_into_what_kubectl_apply_keeps_of_them(rendered):
    # It notes the whole object in an annotation; all annotations together have 256 KiB.
    for each in rendered["default"]:
        assert len(str(each)) < 200 * 1024, key(each)
