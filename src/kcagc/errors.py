"""What can go wrong, one class for each kind of cause, so that callers and exit codes need not read messages."""

from typing import Self


class KcagcError(Exception):
    """The base of every error that kcagc raises on purpose; the command line exits with the class's `exit_code`."""

    exit_code = 1
    told = "aborted"  # what other organisations may be told: never anything about data

    def telling(self, told: str) -> Self:
        """Say what others are told instead."""
        self.told = told
        return self


class DataError(KcagcError, ValueError):
    """Data that cannot be used as it is; the message names what, where and what to do."""

    exit_code = 3
    told = "its data cannot be used"


class ParameterError(KcagcError, ValueError):
    """A parameter with a value that means nothing; the message names it and says what would do."""

    exit_code = 2
    told = "its parameters cannot be used"


class DownloadError(KcagcError, OSError):
    """A public dataset could not be fetched, or what arrived is not what was asked for."""

    exit_code = 8


class PolicyError(KcagcError):
    """Something would be disclosed that the operator has not accepted by name; nothing was sent."""

    exit_code = 4
    told = "its policy refuses this run"


class AgreementError(KcagcError):
    """Parties came with different parameters or different data; the message names them and the field."""

    exit_code = 5
    told = "parties do not agree"
    odd = ""  # the party that most others do not agree with, where that is known


class PeerError(KcagcError):
    """A peer sent what the protocol does not allow: somebody misbehaves, or something between the peers does."""

    exit_code = 6
    told = "a peer broke the rules"
    forgivable = True  # whether the same peer may come back and do better


class AbortedError(KcagcError):
    """Another role ended the run; the message names it and what it said."""

    exit_code = 7

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin} ended the run: {reason}")
        self.origin, self.reason = origin, reason


class MaskReuseError(KcagcError):
    """A label was about to hide a second, different content, which would give away both; nothing was sent."""

    exit_code = 9


class PeerTimeoutError(KcagcError):
    """A peer that is needed did not come, or went and did not come back, in the time that was set for it."""

    exit_code = 10
    told = "a peer is missing"


class RejectedError(KcagcError):
    """The aggregator does not let us in: it does not accept our certificate, our name or our identity key."""

    exit_code = 11
    told = "it was refused"


class SessionError(KcagcError):
    """A session cannot go on from here: its journal is in use, was written by something else, or is not the newest."""

    exit_code = 12
    told = "its session cannot go on"
