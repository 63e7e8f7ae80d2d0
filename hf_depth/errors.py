"""The error that bad input raises: one sentence with what was given, what was expected, what to do."""


class DepthError(ValueError):
    """Raised for input that cannot be used; the command line prints its message and exits with status 2."""
