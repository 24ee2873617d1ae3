"""The stages from a case to a verdict, its cost and its sentence."""
