"""Nominal values of the simulated GPU: those of an H100 SXM data sheet, where it has them."""

MODEL = "Lockstep simulated GPU"
CLOCK_MAX_HERTZ = 1.980e9
POWER_LIMIT_WATTS = 700.0
POWER_IDLE_WATTS = 110.0
POWER_CAPPED_WATTS = 400.0
SLOWDOWN_CELSIUS = 90.0
SHUTDOWN_CELSIUS = 95.0
HEALTHY_CELSIUS = 64.0
OVERHEATED_CELSIUS = 93.0
MEMORY_BYTES = 80 * 2**30
THERMAL_SECONDS = 0.8
"""Time constant of the temperature; short, because the runs are."""
HEATING_LEAD_SECONDS = 1.8
"""Cooling fails this long before the clock falls: temperature first, then the clock."""
PCIE_WIDTH = 16.0
PCIE_GENERATION = 5.0
