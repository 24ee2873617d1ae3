"""The constant of robust statistics that every floor uses."""

MAD_TO_SIGMA = 1.4826
"""A Gaussian's deviation over its median absolute deviation: 1 / the normal quantile at 3/4."""
