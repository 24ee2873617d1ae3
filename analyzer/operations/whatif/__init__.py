"""Counterfactual time: how long the steps would have taken if some workers had not straggled."""
