"""Counterfactual time: how long the steps would have taken if some workers had not straggled."""

from analyzer.whatif.analysis import Unexplained, WhatIf, analyze
from analyzer.whatif.document import document

__all__ = ["Unexplained", "WhatIf", "analyze", "document"]
