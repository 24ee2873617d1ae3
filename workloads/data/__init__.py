"""What the reference runs read: the user's own data, or synthetic data of a known optimum."""


class DataError(ValueError):
    """Data cannot be used; the message names the file or place, what is wrong, what is right."""
