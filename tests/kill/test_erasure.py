"""After the end of a session its journal holds no secret, also if the role is killed at any moment of the end."""

import shutil
import sqlite3

import msgspec
import pytest

from kcagc.runtime.journal import SessionRandomness
from kill.scenarios import KILLED

MIDDLE = ("commit done", 8)  # of any role


def secrets_of(state, scratch):
    """Read the secrets of a session from a copy of its journal, as a thief could."""
    shutil.copytree(state, scratch)
    database = sqlite3.connect(scratch / "fit.sqlite")
    ((packed,),) = database.execute("SELECT value FROM facts WHERE name = 'randomness'").fetchall()
    database.close()
    randomness = msgspec.msgpack.decode(packed, type=SessionRandomness)
    return [randomness.private, randomness.shuffling]


def bytes_on_disk(state):
    return b"".join(path.read_bytes() for path in sorted(state.rglob("*")) if path.is_file())


@pytest.mark.parametrize("role", ["b", pytest.param("coordinator", marks=pytest.mark.kill)])
@pytest.mark.parametrize(
    "boundary",
    [("end done", 1), *(pytest.param(one, marks=pytest.mark.kill) for one in [None, ("end begins", 1), ("erased", 1)])],
)
def test_a_journal_holds_no_secret_after_the_end(campaign, role, boundary):
    """This includes a second process that is killed after erasing and before overwriting the disk."""
    with campaign.run("coordinator") as run:
        run.plans[role] = [{"kill": MIDDLE}]
        run.start_all()
        assert run.end_of(role) == KILLED
        state = run.folder / role / "state"
        secrets = secrets_of(state, run.folder / "scratch")
        assert all(secret in bytes_on_disk(state) for secret in secrets)
        run.start(role, **({"kill": boundary} if boundary else {}))
        if boundary == ("end done", 1):
            assert run.end_of(role) == KILLED
            assert not [secret for secret in secrets if secret in bytes_on_disk(state)]
            run.start(role)
        run.run_to_end()
        assert run.codes[role] == [KILLED, *([KILLED] if boundary else []), 0]
        assert not [secret for secret in secrets if secret in bytes_on_disk(state)]
