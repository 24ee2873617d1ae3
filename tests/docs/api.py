"""docs/reference/api.md, from the OpenAPI document of `lockstep api`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

from tests.docs.tables import code, table

INTRODUCTION = (
    "Every path but `/healthz` and `/openapi.json` needs `Authorization: Bearer TOKEN`. Answers are"
    " JSON; NaN and infinities are null; a type with `?` may be null. A refusal is 4xx with `error`"
    " (a word that does not change), `reason` (one sentence) and `field` (which parameter or key;"
    " null = none). `lockstep watch` serves the paths without a star beside its page."
    " [How it is used](../ml/api.md)."
)
ACTING = "\\*"
BASE_KEYS = 5
"""A shape of so many keys is referred to where another one has them all."""
Tree = Mapping[str, Any]


def text(made: str) -> str:
    """The page."""
    full = document(acting=True)
    reading = document(acting=False)["paths"]
    rows = []
    for path, methods in full["paths"].items():
        for method, operation in methods.items():
            star = "" if method in reading.get(path, {}) else f" {ACTING}"
            rows.append((f"{code(f'{method.upper()} {path}')}{star}", operation["summary"]))
    parts = ["# API", made, INTRODUCTION, table(("request", "what"), rows)]
    parts += ["## Queries", *_queries(full)]
    schemas = full["components"]["schemas"]
    for name, shape in schemas.items():
        if "properties" in shape and name not in ("HTTPValidationError", "ValidationError"):
            base = _base(shape, schemas)
            words = shape.get("description", "")
            if base:
                words += f" It has the keys of [{base}](#{base.lower()}), and:"
            parts += [f"## {name}", words, _keys(shape, schemas[base] if base else {})]
    return "\n\n".join(parts) + "\n"


def document(*, acting: bool) -> Tree:
    """The OpenAPI document."""
    from lockstep.bench.api.app import routes
    from lockstep.bench.api.reading import Reading

    with TemporaryDirectory() as folder:
        app = routes(Reading(Path(folder)), Mock() if acting else None)
        schema: Tree = app.openapi()
        return schema


def _queries(full: Tree) -> Iterator[str]:
    for path, methods in full["paths"].items():
        for method, operation in methods.items():
            parameters = [
                parameter
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "query"
            ]
            if parameters:
                yield code(f"{method.upper()} {path}")
                yield "\n".join(
                    _line(
                        parameter["name"],
                        _kind(parameter["schema"]),
                        parameter.get("description", ""),
                    )
                    for parameter in parameters
                )


def _base(shape: Tree, schemas: Tree) -> str:
    """The shape whose keys it has, and more; empty if there is none."""
    keys = shape["properties"].items()
    return next(
        (
            name
            for name, other in schemas.items()
            if len(other.get("properties", ())) >= BASE_KEYS and other["properties"].items() < keys
        ),
        "",
    )


def _keys(shape: Tree, base: Tree) -> str:
    needed = shape.get("required", ())
    rows = []
    for name, schema in shape["properties"].items():
        if name in base.get("properties", ()):
            continue
        usual = schema.get("default")
        default = "" if name in needed or usual is None else f"; default {_shown(usual)}"
        rows.append(_line(name, f"{_kind(schema)}{default}", schema.get("description", "")))
    return "\n".join(rows)


def _line(name: str, kind: str, what: str) -> str:
    return f"- {code(name)} ({kind})" + (f": {what}" if what else "")


def _kind(schema: Tree) -> str:
    if "anyOf" in schema:
        kinds = [_kind(option) for option in schema["anyOf"]]
        if len(kinds) == 2 and kinds[1] == "null" and "," not in kinds[0]:
            return f"{kinds[0]}?"
        return " or ".join(kinds)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_kind(schema['items'])}"
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum")
    bounds = "".join([
        "" if least is None else f", from {least}", "" if most is None else f" to {most}",
    ])  # fmt: skip
    return f"{kind}{bounds}"


def _shown(value: Any) -> str:
    return "null" if value is None else str(value).lower() if value in (True, False) and isinstance(
        value, bool) else str(value) or "empty"  # fmt: skip
