"""Two runs beside each other: what was set, what was measured, where they ran."""
