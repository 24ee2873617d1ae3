"""Counterfactual time: how long the steps would have taken if some workers had not straggled."""

from lockstep.analyzer.whatif.analysis import Unexplained, WhatIf, analyze
from lockstep.analyzer.whatif.document import document

__all__ = ["Unexplained", "WhatIf", "analyze", "document"]
