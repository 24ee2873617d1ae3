"""Argo Workflows v4.1, argoproj.io/v1alpha1: what it makes of a Workflow.

The published CRD refuses by CEL; what the controller refuses afterwards ends the Workflow at once
with phase `Failed` and the words in `status.message`. Sources:
https://github.com/argoproj/argo-workflows at f016ad8 (v4.1.2): pkg/apis/workflow/v1alpha1/
workflow_types.go (validation markers) and workflow_phase.go, workflow/validate/validate.go.
"""

import json
import re
from typing import Any

from tests.cluster.controllers import InvalidError, Manifest, at, broken

VERSION = "v4.1.2"
TYPES = (
    "container", "script", "dag", "steps", "resource", "suspend", "containerSet", "data", "http",
    "plugin",
)  # fmt: skip
ACTIONS = ("get", "create", "apply", "delete", "replace", "patch")
FIELD_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]{0,127}", re.ASCII)
VARIABLE = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
GLOBALS = ("workflow.", "pod.name", "node.name", "retries", "lastRetry.")
RESERVED = ("wait", "init")


def admitted(workflow: Manifest) -> Manifest:
    """What the API server keeps of it.

    Raises:
        InvalidError: The CRD refuses it.
    """
    templates = at(workflow, "spec.templates", [])
    said = broken(workflow, [
        ("spec.templates: too many", lambda _: len(templates) <= 200),
        ("spec.templates: template must have at most one template type",
         lambda _: all(sum(kind in each for kind in TYPES) <= 1 for each in templates)),
        ("spec.templates: timeout cannot be applied to steps or dag templates",
         lambda _: not any(each.get("timeout") and _branches(each) for each in templates)),
        ("spec.templates: activeDeadlineSeconds is only valid for leaf templates",
         lambda _: not any("activeDeadlineSeconds" in each and _branches(each)
                           for each in templates)),
        ("spec.activeDeadlineSeconds: must be at least 1",
         lambda each: at(each, "spec.activeDeadlineSeconds", 1) >= 1),
        ("resource.action: not one of its actions",
         lambda _: all(at(each, "resource.action", "get") in ACTIONS for each in templates)),
        ("resource: only one of manifest or manifestFrom can be specified",
         lambda _: not any({"manifest", "manifestFrom"} <= set(each.get("resource", ()))
                           for each in templates)),
    ])  # fmt: skip
    if said:
        raise InvalidError(said)
    return workflow


def validation_errors(workflow: Manifest) -> list[str]:
    """What ends it at once, in its message; empty = it runs."""
    spec, name = workflow["spec"], workflow["metadata"]["name"]
    templates: list[dict[str, Any]] = spec.get("templates", [])
    names = [each.get("name", "") for each in templates]
    said = broken(workflow, [
        (f"workflow name {name} must not be more than 63 characters long",
         lambda _: len(name) <= 63),
        ("spec.entrypoint is required", lambda _: bool(spec.get("entrypoint"))),
        ("spec.templates: a name is invalid or not unique",
         lambda _: len(set(names)) == len(names) and all(map(FIELD_NAME.fullmatch, names))),
    ])  # fmt: skip
    steps = [step for each in templates for group in each.get("steps", ()) for step in group]
    wanted = [spec.get("entrypoint"), *filter(None, [spec.get("onExit")])]
    said += [f"template name {each} undefined"
             for each in (*wanted, *(step.get("template") for step in steps))
             if each and each not in names]  # fmt: skip
    said += [f"the step {step.get('name')} has no valid name" for step in steps
             if not FIELD_NAME.fullmatch(step.get("name", ""))]  # fmt: skip
    for each in templates:
        said += _of_a_template(each)
    return said


def _of_a_template(each: Manifest) -> list[str]:
    where, resource = f"templates.{each.get('name')}", each.get("resource")
    said = []
    if not any(kind in each for kind in TYPES):
        said.append(f"{where} template type unspecified")
    if "container" in each and not at(each, "container.image"):
        said.append(f"{where}.container.image may not be empty")
    mounts = [one["mountPath"] for one in at(each, "container.volumeMounts", [])]
    if len(set(mounts)) < len(mounts):
        said.append(f"{where}.container.volumeMounts: already mounted")
    said += [f"{where}.sidecars: {one['name']} is a reserved Argo container name"
             for one in each.get("sidecars", ()) if one.get("name") in RESERVED]  # fmt: skip
    if (
        resource
        and resource.get("action") not in ("get", "delete")
        and not ({"manifest", "manifestFrom"} & set(resource))
    ):
        said.append(f"{where}.resource: either manifest or manifestFrom must be specified")
    text = json.dumps(each)
    said += [f"{where}: failed to resolve {{{{{one}}}}}" for one in VARIABLE.findall(text)
             if not one.startswith((*GLOBALS, "inputs.", "steps.", "="))]  # fmt: skip
    return said


def _branches(each: Manifest) -> bool:
    return "steps" in each or "dag" in each
