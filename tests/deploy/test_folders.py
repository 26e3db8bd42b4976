"""The folders of `kcagc init`: private files in the right place, and comments that are true."""

import os
import re
import stat
import tomllib
from itertools import takewhile

import msgspec
import pytest
from click.testing import CliRunner

from deploy.collaboration import edit, made
from kcagc.cli.main import cli
from kcagc.data import ColumnRule
from kcagc.deploy import config as structs
from kcagc.deploy.config import Config
from kcagc.deploy.folders import FolderPlan, configuration
from kcagc.errors import ParameterError


def init(folder, *options):
    return CliRunner().invoke(cli, ["init", str(folder), *options])


def files_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check(config):
    return CliRunner().invoke(cli, ["check", "--offline", "--config", str(config)])


@pytest.mark.parametrize("aggregator", [None, "bob"])
def test_no_folder_holds_a_private_file_of_another_role(tmp_path, aggregator):
    configs = made(tmp_path, aggregator=aggregator)
    contents = files_of(tmp_path)
    private = {path: content for path, content in contents.items() if path.parent.name == "private"}
    assert {path.name for path in private} == {"identity.pem", "tls-key.pem"}
    assert len(private) == 2 * len(configs)
    for path, content in contents.items():
        # No private key but those two of each role: the authority's, above all, is nowhere.
        assert (b"PRIVATE KEY" in content) == (path in private)
    assert len(set(private.values())) == len(private)  # and no key is two roles'
    for path, content in private.items():
        secret = b"".join(content.splitlines()[1:-1])
        assert len(secret) > 40
        assert [other for other, text in contents.items() if secret in text.replace(b"\n", b"")] == [path]


def test_private_files_are_readable_for_their_owner_only_with_any_umask(tmp_path):
    before = os.umask(0)
    try:
        made(tmp_path)
    finally:
        os.umask(before)
    for path in tmp_path.glob("*/private"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {stat.S_IMODE(one.stat().st_mode) for one in path.iterdir()} == {0o600}


@pytest.mark.parametrize("n_parties", [2, 16])
@pytest.mark.parametrize("aggregator", [[], ["--aggregator", "p0"]])
def test_every_configuration_with_data_passes_the_check(tmp_path, n_parties, aggregator):
    names = [f"p{number}" for number in range(n_parties)]
    done = init(tmp_path / "trial", "--parties", ",".join(names), "--example-data", *aggregator)
    assert done.exit_code == 0
    configs = sorted((tmp_path / "trial").glob("*/kcagc.toml"))
    assert len(configs) == n_parties + (not aggregator)
    for path in configs if n_parties == 2 else configs[:2]:
        if aggregator:
            edit(path, r"^accept = \[\]\n", "")
            edit(path, r"^# (accept = )", r"\1")
        done = check(path)
        assert done.exit_code == 0, done.output
        assert "error" not in done.output
    for path in configs:
        assert Config.load(path).agreement() == Config.load(configs[0]).agreement()


def test_init_prints_the_command_of_every_role(tmp_path):
    done = init(
        tmp_path / "trial",
        "--parties",
        "ann, bob",
        "--coordinator",
        "aggregator",
        "--address",
        "aggregator.example:7443",
    )
    assert done.exit_code == 0
    for name, command in (("ann", "party"), ("bob", "party"), ("aggregator", "coordinator")):
        assert f"kcagc {command} --config {tmp_path / 'trial' / name / 'kcagc.toml'}" in done.output
    aggregator, ann = (
        Config.load(tmp_path / "trial" / name / "kcagc.toml").document.network for name in ("aggregator", "ann")
    )
    assert (aggregator.listen, aggregator.address) == ("0.0.0.0:7443", "")
    assert (ann.listen, ann.address) == ("", "aggregator.example:7443")
    assert "The certificates are for trials" in done.output


def test_a_party_that_aggregates_is_the_last_participant(tmp_path):
    assert init(tmp_path / "trial", "--parties", "ann,bob,cid", "--aggregator", "bob").exit_code == 0
    loaded = Config.load(tmp_path / "trial" / "bob" / "kcagc.toml")
    assert [one.name for one in loaded.document.participants] == ["ann", "cid", "bob"]
    assert loaded.listens
    assert loaded.parameters().aggregator == "party"


# What the comments say.


def commented_settings(text, section):
    """The settings of a section that stand there as comments, with their lines."""
    lines = iter(text.splitlines())
    for line in lines:
        if line == f"[{section}]":
            break
    inside = list(takewhile(lambda line: not re.match(r"\[|# \[", line), lines))
    return {found[1]: line for line in inside if (found := re.match(r"# (\w+) = ", line))}


@pytest.mark.parametrize("n_parties", [2, 3, 4, 16])
def test_every_default_in_a_comment_is_the_default(tmp_path, n_parties):
    path = made(tmp_path, [f"p{number}" for number in range(n_parties)], n_clusters=7, data=False)["p0"]
    text = path.read_text()
    document, parameters = Config.load(path).document, Config.load(path).parameters()
    listed = {section: commented_settings(text, section) for section in ("session", "output", "limits")}
    assert len(listed["session"]) >= 11
    assert listed["limits"].keys() == {"max_message_bytes"}
    for section, lines in listed.items():
        for name, line in lines.items():
            path.write_text(text.replace(line, line.removeprefix("# ")))
            changed = Config.load(path)
            assert getattr(getattr(changed.document, section), name) is not None
            if name == "n_local_clusters":  # only other methods have local clusters, so "auto" takes one of these
                with_labels = document.session.method_with_labels(n_parties)
                expected = msgspec.structs.replace(document.session, method=with_labels).resolve(n_parties)
                assert changed.parameters() == expected
                continue
            assert changed.parameters() == parameters, line
            if section != "session":
                assert changed.document == document, line


@pytest.mark.parametrize("section", ["session", "output", "limits", "data", "me"])
def test_settings_in_the_file_are_the_defaults_except_those_given_to_init(tmp_path, section):
    """Where the template sets what has a default, it sets that, but for what `kcagc init` was asked."""
    path = made(tmp_path, data=False)["alice"]
    found = getattr(Config.load(path).document, section)
    for field in msgspec.structs.fields(type(found)):
        if field.required or (section, field.name) in {("session", "psi"), ("data", "id_column"), ("data", "graph")}:
            continue
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        assert getattr(found, field.name) == default


@pytest.mark.parametrize(("section", "struct"), [
    ("me", structs.MeSection), ("session", structs.RunSettings), ("participants", structs.ParticipantEntry),
    ("data", structs.DataSection), ("policy", structs.PolicySection), ("output", structs.OutputSection),
    ("limits", structs.LimitsSection),
])  # fmt: skip
def test_init_writes_a_line_for_every_setting(tmp_path, section, struct):
    text = made(tmp_path, data=False)["alice"].read_text()
    start = re.search(rf"^\[+{section}\]+$", text, flags=re.MULTILINE).end()
    inside = re.split(r"^(?:# )?\[+\w+\]+$", text[start:], maxsplit=1, flags=re.MULTILINE)[0]
    for field in msgspec.structs.fields(struct):
        assert re.search(rf"^(# )?{field.name}(\.\w+)? = ", inside, flags=re.MULTILINE), field.name


def test_listen_and_address_are_in_the_files_of_the_right_roles(tmp_path):
    configs = made(tmp_path, data=False)
    found = {name: set(tomllib.loads(configs[name].read_text())["network"]) for name in ("alice", "coordinator")}
    known = {field.name for field in msgspec.structs.fields(structs.NetworkSection)}
    assert found["alice"] | found["coordinator"] == known
    assert found["alice"] ^ found["coordinator"] == {"address", "listen"}


def test_the_file_of_a_coordinator_has_no_section_about_data(tmp_path):
    configs = made(tmp_path, data=False)
    content = tomllib.loads(configs["coordinator"].read_text())
    assert content.keys() == {"me", "session", "participants", "network", "output", "limits"}
    assert "labels" not in content["output"]
    assert not (configs["coordinator"].parent / "data").exists()


def test_the_commented_section_for_predictions_is_valid(tmp_path):
    path = made(tmp_path, data=False)["alice"]
    edit(path, r"^# (\[predict\]|features = |graph = \"data|id_column = )", r"\1")
    found = Config.load(path).document.predict
    assert (found.features, found.id_column) == ("data/more-features.csv", "id")


def test_the_commented_rules_for_columns_are_valid(tmp_path):
    path = made(tmp_path, data=False)["alice"]
    edit(path, r"^# (columns\.|default = |node_list = )", r"\1")
    found = Config.load(path).document.data
    assert (found.node_list, found.default) == ("data/nodes.csv", ColumnRule())
    assert found.columns["age"] == ColumnRule(missing="median", scale="standard")
    assert {rule.kind for rule in found.columns.values()} == {"number", "categorical", "drop"}


@pytest.mark.parametrize("n_parties", [2, 3])
def test_the_comment_lists_the_risks_of_a_party_that_aggregates(tmp_path, n_parties):
    configs = made(tmp_path, ["ann", "bob", "cid"][:n_parties], aggregator="bob")
    path = configs["ann"]
    done = check(path)
    assert done.exit_code == 4
    assert "error policy" in done.output
    assert "ok    data" in done.output  # which has nothing to do with it
    needed = re.search(r"^# (accept = .*)", path.read_text(), flags=re.MULTILINE)[1]
    for name in ("two-party-sum", "labelled-sums"):
        assert (name in needed) == (name in re.search(r"error policy.*", done.output)[0])
    edit(path, r"^accept = .*", needed)
    done = check(path)
    assert done.exit_code == 0, done.output
    names = tomllib.loads(needed)["accept"]
    for name in names:  # none of them is superfluous
        edit(path, r"^accept = .*", f"accept = {[one for one in names if one != name]}")
        assert check(path).exit_code == 4


def test_a_range_of_numbers_of_clusters_is_written_as_the_file_takes_it(tmp_path):
    assert init(tmp_path / "trial", "--parties", "ann,bob", "--n-clusters", "2-8").exit_code == 0
    assert Config.load(tmp_path / "trial" / "ann" / "kcagc.toml").document.session.n_clusters == (2, 8)


# What is refused.


@pytest.mark.parametrize("there", ["ann", "bob", "coordinator"])
def test_an_existing_folder_is_not_changed(tmp_path, there):
    (tmp_path / there).mkdir()
    (tmp_path / there / "mine.txt").write_text("mine")
    before = {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.rglob("*")]}
    done = init(tmp_path, "--parties", "ann,bob")
    assert isinstance(done.exception, ParameterError)
    assert str(done.exception) == f"{tmp_path / there}: exists already; nothing was written"
    assert {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.rglob("*")]} == before


@pytest.mark.parametrize("name", ["Ann", "a b", "a/b", "..", "ä", "a" * 33, "-a", "a-", "a.b", "a\nx", "[red]"])
def test_names_that_are_not_valid_host_names_are_refused(tmp_path, name):
    done = init(tmp_path / "trial", "--parties", f"{name},bob")
    assert isinstance(done.exception, ParameterError)
    assert "use 1 to 32 lower-case letters, digits and hyphens" in str(done.exception)
    assert not (tmp_path / "trial").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--parties", "ann"], "1 party; there must be 2 to 16"),
        (["--parties", ","], "0 parties; there must be 2 to 16"),
        (["--parties", ",".join(f"p{number}" for number in range(17))], "17 parties; there must be 2 to 16"),
        (["--parties", "ann,ann"], "two roles have the name 'ann'"),
        (["--parties", "ann,coordinator"], "two roles have the name 'coordinator'"),
        (["--parties", "ann,bob", "--coordinator", "bob"], "two roles have the name 'bob'"),
        (["--parties", "ann,bob", "--aggregator", "cid"], "--aggregator: 'cid' is not one of the parties"),
        (["--parties", "ann,bob", "--address", "localhost"], "--address: invalid address 'localhost'"),
        (["--parties", "ann,bob", "--n-clusters", "0"], "n_clusters: must be"),
        (["--parties", "ann,bob", "--n-clusters", "two"], "must be a number such as 5, or a range such as 2-8"),
        (["--parties", "ann,bob", "--psi", "-1"], "psi: must be"),
        ([], "--parties"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(tmp_path, options, words):
    done = init(tmp_path / "trial", *options)
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
    assert words in (str(done.exception) if isinstance(done.exception, ParameterError) else done.output)
    assert not (tmp_path / "trial").exists()


def test_a_party_may_be_called_coordinator_if_there_is_no_coordinator():
    plan = FolderPlan.of(["coordinator", "ann"], aggregator="ann", address="h:1", listen="h:1", n_clusters=2, psi=0)
    assert plan.roles == ("coordinator", "ann")


def test_an_identity_key_is_private_and_never_overwritten(tmp_path):
    path = tmp_path / "private" / "identity.pem"
    made_ = CliRunner().invoke(cli, ["identity", str(path)])
    public = made_.output.strip()
    assert re.fullmatch(r"[0-9a-f]{64}", public)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    from kcagc.secagg.keys import Identity

    assert Identity.from_pem(path.read_bytes()).public.hex() == public
    before = path.read_bytes()
    again = CliRunner().invoke(cli, ["identity", str(path)])
    assert isinstance(again.exception, ParameterError)
    assert path.read_bytes() == before


def test_no_name_or_address_of_another_role_can_write_more_into_a_configuration():
    hostile = 'c"\n[data.columns.income]\nkind = "drop\\'
    given = {"address": hostile, "listen": hostile, "tls_names": {"coordinator": hostile}}
    plan = FolderPlan.of(["ann", "bob"], n_clusters=3, **given)
    for name in plan.roles:
        found = tomllib.loads(configuration(plan, name, dict.fromkeys(plan.roles, bytes(32))))
        assert found["participants"][-1]["tls_name"] == hostile
        assert hostile in found["network"].values()
        assert "columns" not in found.get("data", {})
