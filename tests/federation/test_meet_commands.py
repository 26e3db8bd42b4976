"""The commands `kcagc invite` and `kcagc join`, with a coordinator in a thread of this process."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from federation.meeting_hall import Hall
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.errors import ParameterError, PeerTimeoutError
from kcagc.federation.codes import Code, fingerprint
from kcagc.federation.joining import join


@pytest.fixture
def admission(tmp_path):
    """Run a coordinator until the test has ended; give the text of its admission code."""
    opened, done, found = threading.Event(), threading.Event(), []

    async def run():
        async with Hall(tmp_path / "coordinator").open() as hall:
            found.append(hall.admission.text())
            opened.set()
            await asyncio.to_thread(done.wait)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(asyncio.run, run())
        assert opened.wait(30) or running.result(0)
        yield found[0]
        done.set()


def invoke(*arguments, **more):
    return CliRunner().invoke(cli, [str(one) for one in arguments], **more)


def test_two_organisations_meet_with_three_commands(admission, tmp_path):
    bank, shop = tmp_path / "bank", tmp_path / "shop"
    options = ("--coordinator", "-", "--parties", "bank, shop", "--n-clusters", 7, "--folder", bank)
    invited = invoke("invite", "fraud", *options, input=admission)
    assert invited.exit_code == 0, invited.output
    code = invited.stdout.strip()
    assert re.fullmatch(r"(\w{5}-)+\w{2,5}", code)
    assert "Give this code to bank and shop." in invited.stderr
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(asyncio.run, join(Code.read(code, "invitation"), "shop", shop))
        joined = invoke("join", code, "--as", "bank", "--folder", bank)
        theirs = other.result(60)
    assert joined.exit_code == 0, joined.output
    for name, key in theirs.participants.items():
        assert re.search(rf"^{name} +{fingerprint(key)}$", joined.stdout, flags=re.MULTILINE)
    assert f"all together {theirs.fingerprint}" in joined.stdout
    assert Config.load(bank / "kcagc.toml").document.session.n_clusters == 7


def test_a_mistyped_code_ends_the_command_before_a_key_is_made(admission, tmp_path):
    done = invoke("join", admission[:-1], "--as", "bank", "--folder", tmp_path / "bank")
    assert isinstance(done.exception, ParameterError)
    assert "typing error" in str(done.exception)
    done = invoke("join", admission, "--as", "bank", "--folder", tmp_path / "bank")
    assert "enter the invitation code" in str(done.exception)
    assert not (tmp_path / "bank").exists()


def test_an_unreachable_coordinator_is_named(tmp_path):
    code = Code.fresh("invitation", b"f" * 16, "127.0.0.1:9", "fraud").text()
    done = invoke("join", code, "--as", "bank", "--folder", tmp_path / "bank")
    assert isinstance(done.exception, PeerTimeoutError)
    assert "127.0.0.1:9: no TLS server can be reached there" in str(done.exception)
