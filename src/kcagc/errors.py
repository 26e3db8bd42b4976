"""What can go wrong, one class for each kind of cause, so that callers and exit codes need not read messages."""


class KcagcError(Exception):
    """The base of every error that kcagc raises on purpose; the command line exits with the class's `exit_code`."""

    exit_code = 1


class DataError(KcagcError, ValueError):
    """Data that cannot be used as it is; the message names what, where and what to do."""

    exit_code = 3


class ParameterError(KcagcError, ValueError):
    """A parameter with a value that means nothing; the message names it and says what would do."""

    exit_code = 2


class DownloadError(KcagcError, OSError):
    """A public dataset could not be fetched, or what arrived is not what was asked for."""

    exit_code = 8
