"""Errors that kcagc raises on purpose: one class for each cause, with fields for programs and a message for people."""

from collections.abc import Iterable
from typing import Any, Self


class KcagcError(Exception):
    """Base class of every error that kcagc raises on purpose.

    Attributes
    ----------
    exit_code : int
        Exit code of the command line for this class.
    public_message : str
        Text that other organisations may read. It never contains anything about data.
    """

    exit_code = 1
    public_message = "aborted"

    def with_public_message(self, text: str) -> Self:
        """Set the text that other organisations may read, and return the error."""
        self.public_message = text
        return self


class DataError(KcagcError, ValueError):
    """Data that cannot be used; the message names the place and the remedy.

    Parameters
    ----------
    message : str
        What is wrong, where, and what to do.
    party : str, default ""
        Party whose data these are, if the raiser knows it.
    problems : iterable of dict, default ()
        All problems of a table: kind, column, number of cells, first places and values, and what to do.
    """

    exit_code = 3
    public_message = "its data cannot be used"

    def __init__(self, message: str = "", *, party: str = "", problems: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.party = party
        self.problems = tuple(problems)

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.party}: {message}" if self.party else message


class ParameterError(KcagcError, ValueError):
    """A parameter or setting with an invalid value; the message names it and the valid values."""

    exit_code = 2
    public_message = "its parameters cannot be used"


class DownloadError(KcagcError, OSError):
    """A public dataset could not be downloaded, or the download has the wrong checksum."""

    exit_code = 8


class PolicyError(KcagcError):
    """The run would disclose something that the operator has not accepted by name; nothing was sent."""

    exit_code = 4
    public_message = "its policy refuses this run"


class MaskReuseError(KcagcError):
    """A mask was about to hide a second, different vector, which would reveal both; nothing was sent."""

    exit_code = 9


class SessionError(KcagcError):
    """A session cannot continue: another process uses its journal, or the journal is foreign, damaged or outdated."""

    exit_code = 12
    public_message = "its session cannot go on"


class _PeerRelatedError(KcagcError):
    """An error that another role caused.

    Parameters
    ----------
    message : str
        What the peer did.
    peer : str, default ""
        Name of that role; empty if it is not known.
    """

    def __init__(self, message: str = "", *, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.peer}: {message}" if self.peer else message


class AgreementError(_PeerRelatedError):
    """Roles came with different parameters or different data; the message names the roles and the field."""

    exit_code = 5
    public_message = "parties do not agree"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class PeerError(_PeerRelatedError):
    """A peer sent something that the protocol does not allow."""

    exit_code = 6
    public_message = "a peer broke the rules"
    recoverable = True  # whether the same peer may correct the cause and connect again


class EquivocationError(PeerError):
    """A peer sent two different messages under one number, which no accident explains; the run ends."""

    recoverable = False


class AbortedError(_PeerRelatedError):
    """Another role, `peer`, ended the run; `reason` is the public message of that role."""

    exit_code = 7
    advice = ""  # what to do at this role
    known = ""  # what this role knows about the reason itself, in its own words
    final = False  # whether the aggregator has waited in vain for that role, so that no new session begins by itself

    @property
    def reason(self) -> str:
        """Public message of the role that ended the run."""
        return str(self.args[0])

    def __str__(self) -> str:
        shown = self.known or explained(self.reason)
        advice = f". {self.advice}" if self.advice else ""
        return f"{self.peer} ended the run: {shown}{advice}"


class PeerTimeoutError(_PeerRelatedError):
    """A peer did not connect, or did not send anything, within the configured time."""

    exit_code = 10
    public_message = "a peer timed out"


class RejectedError(_PeerRelatedError):
    """The aggregator rejects this role: its certificate, its name or its identity key."""

    exit_code = 11
    public_message = "it was rejected"


class EngineError(SessionError):
    """The machines that do a party's own work failed; nothing of it was sent, and the same command resumes."""

    exit_code = 13
    public_message = "its machines cannot do its work"


class VerificationError(KcagcError):
    """A file of a finished run was changed, or a signature in its audit file is wrong (`kcagc verify`).

    Parameters
    ----------
    message : str
        What is wrong.
    file : str, default ""
        File that does not pass.
    """

    exit_code = 14

    def __init__(self, message: str = "", *, file: str = "") -> None:
        super().__init__(message)
        self.file = file

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.file}: {message}" if self.file else message


def explained(reason: str) -> str:
    """Return a public message as a reader understands it; the general one hides whether data caused the end."""
    return f"{reason}, for a reason that only its own log gives" if reason == KcagcError.public_message else reason
