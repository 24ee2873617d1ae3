"""All causes, in the order of the contract, and the words for each.

Each module of `causes.specs` holds one `SPEC`; its word is a row in `collector.contract.causes`.
`unknown` has none.
"""

from importlib import import_module
from pkgutil import iter_modules

from lockstep.analyzer.causes import specs
from lockstep.analyzer.causes.cause_spec import CauseSpec
from lockstep.collector.contract.words import Cause


def _specs() -> tuple[CauseSpec, ...]:
    """The specs of all modules, in the order of the contract.

    Raises:
        LookupError: A word of the contract has no file, or two.
    """
    modules = [
        import_module(f"{specs.__name__}.{module.name}") for module in iter_modules(specs.__path__)
    ]
    rows: list[CauseSpec] = [module.SPEC for module in modules]
    words = sorted(spec.cause for spec in rows)
    if words != sorted(cause for cause in Cause if cause is not Cause.UNKNOWN):
        raise LookupError(
            f"analyzer/causes/specs has files of {words}; the contract has {list(Cause)}"
        )
    order = list(Cause)
    return tuple(sorted(rows, key=lambda spec: order.index(spec.cause)))


CAUSES: tuple[CauseSpec, ...] = _specs()
SPECS: dict[str, CauseSpec] = {spec.cause: spec for spec in CAUSES}
"""Word -> what is known of the cause; `unknown` has no row."""
_NOT_KNOWN: dict[str, str] = {Cause.UNKNOWN: "the cause is unknown"}
CAUSE_WORDS: dict[str, str] = _NOT_KNOWN | {spec.cause: spec.words for spec in CAUSES}
"""Word -> what the sentence says of a rank."""
NODE_CAUSE_WORDS: dict[str, str] = _NOT_KNOWN | {spec.cause: spec.node_words for spec in CAUSES}
"""Word -> what it says of a whole node."""
