"""What can be wrong between us and a Prometheus: each message is a sentence for people."""


class SourceError(Exception):
    """Prometheus cannot be reached, refuses, or does not answer as a Prometheus does."""


class RequestError(ValueError):
    """What was asked for is not there, or cannot be: the run, the span, the URL."""


class TooMuchError(SourceError):
    """Prometheus finds the answer too large or too slow: a shorter span may do."""
