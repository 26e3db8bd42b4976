"""The site builds without a warning, needs no other server, and its tables are complete."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module

import pytest

from documentation.pages import DOCS, pages

sys.path.append(str(DOCS / "_ext"))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q", str(DOCS), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_built_and_linked_from_the_first(site):
    first = (site / "index.html").read_text()
    for name in pages():
        assert (site / f"{name}.html").exists()
        assert name == "index" or f'href="{name}.html"' in first, name


class _Requests(HTMLParser):
    """Collects the files that a browser loads to show a page. Links for the reader are not among them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.found.append(given.get("src"))
        if tag == "link" and given.get("rel") not in ("canonical", "search", "next", "prev", "index", "genindex"):
            self.found.append(given.get("href"))


def test_no_page_loads_anything_from_another_server(site):
    for page in site.rglob("*.html"):
        requests = _Requests()
        requests.feed(page.read_text())
        outside = [one for one in requests.found if one and re.match(r"(https?:)?//", one)]
        assert not outside, f"{page.name}: {outside}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text()), style.name


def test_the_page_of_commands_has_every_command_and_option(site):
    import click

    from kcagc.cli.main import cli

    page = _text(site / "reference" / "cli.html")

    def walk(command, name):
        context = click.Context(command, **cli.context_settings)
        for option in command.get_params(context):
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in page
        for inner in command.list_commands(context) if isinstance(command, click.Group) else ():
            assert f"{name} {inner}" in page
            walk(command.get_command(context, inner), f"{name} {inner}")

    walk(cli, "kcagc")


def test_the_threat_model_has_every_line_of_the_ledger_and_every_risk(site):
    from kcagc.disclosure.texts import RISKS, TEXTS

    page = _text(site / "threat-model.html")
    for kind, line in TEXTS.items():
        assert kind in page
        assert _plain(line.learns) in _plain(page), kind
    assert all(name in page for name in RISKS)


def test_the_wire_format_has_every_message_frame_and_constant(site):
    from typing import get_args

    import msgspec

    from kcagc.net import frames, grpc_client
    from kcagc.protocol import messages
    from kcagc.protocol.agreement import PROTOCOL
    from kcagc.secagg import masks

    page = _text(site / "reference" / "wire-format.html")
    for kind in (*get_args(messages.AnyMessage), *get_args(messages.EncryptedContent), *get_args(frames.AnyFrame)):
        assert msgspec.inspect.type_info(kind).tag in page
        assert all(field in page for field in kind.__struct_fields__)
    for said in (PROTOCOL, frames.STREAM_PROTOCOL, grpc_client.PATH, f"{frames.PART_BYTES // 1024} KiB"):
        assert said in page
    raised = str(masks.FRACTION_BITS).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert f"2{raised})" in page
    assert ("two check words" in page) == (masks.CHECK_WORDS == 2)


def test_the_reference_has_every_public_name(site):
    from tables_of_code import public_names

    import kcagc

    page = (site / "reference" / "api.html").read_text()
    for module in kcagc.PUBLIC_MODULES:
        for name in public_names(module):
            assert name in page
            if isinstance(getattr(import_module(module), name), type):
                assert re.search(rf'id="kcagc\.[\w.]*{name}"', page), f"{module}.{name} is listed and not described"


def test_the_settings_of_a_role_are_all_listed(site):
    import msgspec

    from kcagc.deploy.config import Document

    page = _text(site / "reference" / "configuration.html")
    for section in msgspec.structs.fields(Document):
        assert f"[{section.name}]" in page
    for name in ("n_local_clusters", "id_column", "tls_name", "max_message_bytes"):
        assert name in page


def test_every_setting_has_a_meaning(site):
    import msgspec
    from tables_of_code import meanings, sections

    page = _plain(_text(site / "reference" / "configuration.html"))
    for section in sections():
        said = meanings(section)
        names = [field.name for field in msgspec.structs.fields(section)]
        assert sorted(said) == sorted(names), section.__name__
        for name, meaning in said.items():
            assert re.match(r'["A-Z]', meaning), f"{section.__name__}.{name}: {meaning!r}"
            assert _plain(re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", meaning)) in page, name


def test_what_the_map_of_the_paper_names_exists():
    text = (DOCS / "concepts" / "paper-map.md").read_text()
    named = re.findall(r"`(\w+/\w+\.py)`", text)
    assert len(named) > 20
    assert [one for one in named if not (DOCS.parent / "src" / "kcagc" / one).exists()] == []


def _text(path):
    return re.sub(r"<[^>]+>", "", path.read_text()).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _plain(words):
    """Forget about quotation marks, which the site makes round, and white space."""
    straight = words.translate(str.maketrans("“”‘’", "\"\"''")).replace("&quot;", '"').replace("&#39;", "'")
    return re.sub(r"\s+", " ", straight)
