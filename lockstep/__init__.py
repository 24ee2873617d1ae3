"""The roof: the command line and the wiring of the parts; and `lockstep.recorder` for programs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.sdk import recorder

__all__ = ["recorder"]


def __getattr__(name: str) -> Any:
    # Not imported here: `lockstep --help` is measured, and imports this file.
    if name == "recorder":
        from workloads.sdk import recorder

        return recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
