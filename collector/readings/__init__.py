"""What sources give: frozen readings, and why there is none."""
