"""Why a request to a cluster came to nothing."""


class SetupError(ValueError):
    """There is no way to a cluster here; the message says why."""


class ApiError(Exception):
    """A request came to nothing; the message is a sentence without its end."""


class UnreachableError(ApiError):
    """Nobody answered, or too late, or the server could not: it may be tried again."""


class RefusedError(ApiError):
    """Not allowed, or wrong: trying again changes nothing."""


class LacksRightError(RefusedError):
    """The account may not: other objects of the kind would most likely be refused as well."""


class ConflictError(ApiError):
    """The object has changed since it was read, or exists already."""


class GoneError(ApiError):
    """There is no such object."""
