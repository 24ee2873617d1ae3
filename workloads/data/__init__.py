"""What the reference runs read: the user's own data, or synthetic data of a known optimum."""
