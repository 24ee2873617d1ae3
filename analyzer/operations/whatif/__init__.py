"""Counterfactual time: how long the steps would have taken if some workers had not straggled."""

from lockstep.analyzer.operations.whatif.analysis import Unexplained, WhatIf, analyze
from lockstep.analyzer.operations.whatif.document import document

__all__ = ["Unexplained", "WhatIf", "analyze", "document"]
