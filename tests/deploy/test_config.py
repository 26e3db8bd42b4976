"""The configuration file: every error names the file, the setting and the valid values."""

import shutil

import pytest
from click.testing import CliRunner

from deploy.collaboration import edit, made
from kcagc.cli import roles
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.errors import ParameterError
from kcagc.protocol.parameters import Parameters, RunSettings
from kcagc.secagg.keys import Identity


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return made(tmp_path_factory.mktemp("roles"))


@pytest.fixture
def folders(written, tmp_path):
    """A copy of all folders that a test may spoil."""
    root = written["alice"].parent.parent
    shutil.copytree(root, tmp_path / "roles")
    return {name: tmp_path / "roles" / path.relative_to(root) for name, path in written.items()}


def refusal(path, look=None):
    """What the configuration is refused with; the message names the file, and speaks of no Python."""
    with pytest.raises(ParameterError) as caught:
        Config.load(path) if look is None else look(Config.load(path))
    said = str(caught.value)
    assert caught.value.exit_code == 2
    if look is None:
        assert said.startswith(f"{path}: ")
    for word in ("Traceback", "Expected `", "enum", "Object", "field", "msgspec", "None", "`$"):
        assert word not in said.removeprefix(str(path))
    return said.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("pattern", "replacement", "place", "words"),
    [
        (r"^psi = 1", "pssi = 1", "session.pssi", "there is no such setting; the settings are n_clusters, "),
        (r"^\[limits\]", "[limit]", "", "no section 'limit'; there are me, session, "),
        (r"^psi = 1", 'psi = "1"', "session.psi", "must be a whole number, 0 or more, or 'auto', not '1'"),
        (r"^psi = 1", "psi = 1.5", "session.psi", "must be a whole number, 0 or more, or 'auto', not 1.5"),
        (r"^psi = 1", "psi = true", "session.psi", "must be a whole number, 0 or more, or 'auto', not True"),
        (r"^psi = 1", "psi = -1", "session.psi", "0 or more, or 'auto', not -1"),
        (r"^n_clusters = 3.*\n", "", "session.n_clusters", "is missing"),
        (
            r"^n_clusters = 3",
            "n_clusters = 0",
            "session.n_clusters",
            "1 or more, or two whole numbers such as [2, 20], not 0",
        ),
        (r"^n_clusters = 3", "n_clusters = 9\nn_local_clusters = 2", "n_local_clusters", "at most 8 intersections"),
        (r"^# n_local_clusters.*", "n_local_clusters = 1.5", "session.n_local_clusters", "or a multiple of k"),
        (r"^# n_local_clusters.*", 'n_local_clusters = "2x"', "session.n_local_clusters", "such as \"2k\", not '2x'"),
        (r"^# n_local_clusters.*", "n_local_clusters = 1", "session.n_local_clusters", "2 or more"),
        (
            r"^# method.*",
            'method = "magic"',
            "session.method",
            "'auto', 'joint', 'cells', 'basic' or 'tree', not 'magic'",
        ),
        (r"^# filter.*", 'filter = "full"', "session.filter", "must be 'half' or 'norm', not 'full'"),
        (r"^# scaling.*", 'scaling = "S"', "session.scaling", "'unit', 'U'"),
        (r"^# virtual_nodes = .*", 'virtual_nodes = "all"', "session.virtual_nodes", "'cell' or 'local', not"),
        (r"^# graph = \"shared.*", 'graph = "mine"', "session.graph", "'shared', 'own' or 'none', not"),
        (r"^aggregator = .*", 'aggregator = "bob"', "session.aggregator", "'coordinator' or 'party', not 'bob'"),
        (r"^aggregator = .*", 'aggregator = "party"', "participants", "there must be 0 coordinator"),
        (r"^# unit.*", "unit = 0.0", "session.unit", "positive"),
        (r"^# unit.*", "unit = inf", "session.unit", "not inf"),
        (r"^# fan_in.*", "fan_in = 1", "session.fan_in", "2 or more, not 1"),
        (r"^# n_components.*", "n_components = 0", "session.n_components", "1 or more, not 0"),
        (r"^# max_iter.*", "max_iter = 0", "session.max_iter", "1 or more"),
        (r"^# n_init.*", "n_init = 0", "session.n_init", "1 or more"),
        (r"(?s)^\[session\].*?(?=^\[)", "", "", "'session' is missing"),
        (r"(?s)^\[me\].*?(?=^\[)", "", "", "'me' is missing"),
        (r"(?s)^\[network\].*?(?=^\[)", "", "", "'network' is missing"),
        (r"(?s)^\[\[participants\]\].*(?=\[network\])", "", "", "'participants' is missing"),
        (r'^(\[me\]\nname = )"alice"', r'\1"alica"', "me.name", "'alica' is not among the participants"),
        (r'(?<=\[me\]\n)name = "alice"\n', "", "me", "'name' is missing"),
        (r'^name = "bob"', 'name = "carol"', "participants", "two participants have the same name, 'carol'"),
        (r'^role = "party"', 'role = "Party"', "participants[0].role", '"party" or "coordinator", not'),
        (
            r'^(name = "bob"\nrole = "party"\nidentity = )"\w+"',
            r'\1"xyz"',
            "participants: bob: identity",
            "hexadecimal",
        ),
        (
            r'^(name = "bob"\nrole = "party"\nidentity = )"\w+"',
            r'\1"abcd"',
            "participants: bob",
            "invalid identity key",
        ),
        (r'^(tls_name = )"bob.*"', r'\1""', "participants: bob: tls_name", "is empty"),
        (r"^tls_name = .*\n", "", "participants[0]", "'tls_name' is missing"),
        (r"(?s)^\[data\].*?(?=^\[)", "", "", "a party needs a section [data]"),
        (r"^features = .*", "", "data", "'features' is missing"),
        (r"^features = ", "feature = ", "data", "no setting 'feature'; there are features, graph, "),
        (r"^# columns.age.*", 'columns.age = { mising = "mean" }', "data.columns.age", "no setting 'mising'"),
        (r"^# columns.age.*", 'columns.age = { missing = "men" }', "data.columns.age.missing", '"mean", "median"'),
        (r"^# columns.age.*", 'columns.age = "mean"', "data.columns.age", "must be a section, not"),
        (r"^# columns.age.*", 'columns."a b" = { scale = 1 }', "data.columns.a b.scale", '"standard", "minmax"'),
        (r"^# columns.age.*", 'columns.age = { weighting = "tf" }', "data.columns.age.weighting", '"idf" or "none"'),
        (r"^# columns.age.*", "columns.age = { max_levels = 5 }", "data.columns.age: max_levels", "categorical"),
        (
            r"^# columns.city.*",
            'columns.c = { kind = "categorical", scale = "minmax" }',
            "data.columns.c: scale",
            "levels",
        ),
        (
            r"^# default = .*",
            'default = { kind = "categorical", missing = "mean" }',
            "data.default: missing",
            "no mean",
        ),
        (r"^# default = .*", 'default = { sale = "none" }', "data.default", "no setting 'sale'; there are kind"),
        (r"^# \[predict\]", '[predict]\nfeatures = "a"\ngraph = "b"\ndefault = {}', "predict", "no setting 'default'"),
        (r"^address = .*", "", "network.address", "is missing; write HOST:PORT"),
        (r"^address = .*", 'address = "localhost"', "network.address", "write host:port"),
        (r"^address = .*", 'address = "https://localhost:1"', "network.address", "write host:port"),
        (r"^address = .*", 'address = "localhost:0"', "network.address", "write host:port"),
        (r"^address = .*", "address = 7443", "network.address", "must be text"),
        (r"^accept = .*", 'accept = "labelled-sums"', "policy.accept", "must be a list"),
        (r"^accept = .*", 'accept = ["everything"]', "policy.accept", "names are two-party-sum, labelled-sums, "),
        (r"^folder = .*", "folder = 3", "output.folder", "must be text"),
        (r'^labels = "labels.csv"', 'labels = "labels.xlsx"', "output.labels", "ends in .csv or .parquet"),
        (r"^peer_timeout = 600", 'peer_timeout = "10m"', "limits.peer_timeout", 'must be a number, not "10m"'),
        (r"^peer_timeout = 600", "peer_timeout = -1", "limits.peer_timeout", "above 0"),
        (r"^message_timeout = 3600", "message_timeout = nan", "limits.message_timeout", "above 0"),
        (r"^# max_message_bytes.*", "max_message_bytes = 0", "limits.max_message_bytes", "above 0"),
        (r"^# random_state.*", "random_state = -1", "me.random_state", "from 0 to 2^32 - 1"),
        (r"^# random_state.*", "random_state = 4294967296", "me.random_state", "from 0 to 2^32 - 1"),
        (r"^psi = 1", "psi = ", "not a TOML file", "line"),
        (r"^psi = 1", "psi = 1\npsi = 1", "not a TOML file", "line"),
    ],
)
def test_a_wrong_setting_is_named_with_the_valid_values(folders, pattern, replacement, place, words):
    edit(folders["alice"], pattern, replacement)
    said = refusal(folders["alice"])
    assert said.startswith(f"{place}: " if place else "")
    assert words in said


def test_the_settings_of_a_coordinator_are_checked_as_well(folders):
    edit(folders["coordinator"], r"^\[output\]", '[data]\nfeatures = "a.csv"\ngraph = "b.csv"\n[output]')
    assert refusal(folders["coordinator"]) == "a coordinator has no section [data]"
    edit(folders["coordinator"], r"^\[data\][^\[]*", "")
    edit(folders["coordinator"], r"^listen = .*", "")
    assert refusal(folders["coordinator"]) == "network.listen: is missing; write HOST:PORT"
    edit(folders["coordinator"], r"^\[network\]", '[network]\nlisten = "7443"')
    assert refusal(folders["coordinator"]).startswith("network.listen: invalid address '7443'")
    edit(folders["coordinator"], r"^listen.*", 'listen = "127.0.0.1:0"')
    assert Config.load(folders["coordinator"]).listens


def test_more_than_16_parties_are_refused(folders):
    more = "".join(
        f'[[participants]]\nname = "p{number}"\nrole = "party"\nidentity = "{Identity.generate().public.hex()}"\n'
        f'tls_name = "p{number}.internal"\n'
        for number in range(14)
    )
    edit(
        folders["alice"],
        r'^\[\[participants\]\]\nname = "coordinator"',
        f'{more}\n[[participants]]\nname = "coordinator"',
    )
    assert refusal(folders["alice"]) == "participants: 17 parties; there must be 2 to 16"


@pytest.mark.parametrize(
    ("old", "new"), [("[[roles]]\nname = 'a'\n", "[[participants]]"), ("[waiting]\nmissing = 5\n", "[limits]")]
)
def test_a_section_of_an_earlier_version_is_refused_with_its_new_name(folders, old, new):
    folders["alice"].write_text(old + folders["alice"].read_text())
    assert new in refusal(folders["alice"])


def test_a_file_that_cannot_be_read_is_named(folders, tmp_path):
    folders["alice"].write_bytes('name = "Zürich"'.encode("latin-1"))
    assert "not a TOML file" in refusal(folders["alice"])
    assert refusal(tmp_path / "nowhere.toml") == "No such file or directory"
    assert refusal(tmp_path) == "Is a directory"


def test_a_key_or_certificate_of_another_role_is_refused(folders):
    alice, bob = folders["alice"], folders["bob"].parent
    shutil.copy(bob / "private" / "identity.pem", alice.parent / "private")
    said = refusal(alice, Config.identity)
    assert "private/identity.pem: its public half is not the identity that [[participants]] lists for alice" in said
    (alice.parent / "private" / "identity.pem").write_text("no key")
    assert "private/identity.pem: cannot be used as an identity key" in refusal(alice, Config.identity)
    (alice.parent / "private" / "identity.pem").unlink()
    assert "private/identity.pem: No such file or directory" in refusal(alice, Config.identity)
    shutil.copy(bob / "certificate.pem", alice.parent)
    assert "tls-key.pem: does not belong to the certificate in" in refusal(alice, Config.credentials)
    shutil.copy(bob / "private" / "tls-key.pem", alice.parent / "private")
    said = refusal(alice, Config.credentials)
    assert said.endswith(
        "is for bob.kcagc.internal, but [[participants]] lists the tls_name alice.kcagc.internal for alice"
    )


def test_names_in_certificates_and_keys_are_compared_without_case(folders):
    edit(folders["alice"], r"alice\.kcagc\.internal", "Alice.KCAGC.internal")
    text = folders["alice"].read_text()
    public = Config.load(folders["alice"]).identity().public.hex()
    folders["alice"].write_text(text.replace(public, public.upper()))
    loaded = Config.load(folders["alice"])
    assert loaded.credentials().names == {"alice.kcagc.internal"}
    assert loaded.identity().public.hex() == public


def test_all_roles_read_the_same_agreement_from_different_files(folders):
    agreements = {name: Config.load(path).agreement().inputs() for name, path in folders.items()}
    assert len(set(agreements.values())) == 1


@pytest.mark.parametrize("n_parties", [2, 3, 4, 16])
def test_defaults_are_those_of_the_declaration(tmp_path, n_parties):
    configs = made(tmp_path, [f"p{number}" for number in range(n_parties)], data=False)
    found = Config.load(configs["p0"]).parameters()
    assert found == RunSettings(n_clusters=3, psi=1).resolve(n_parties)
    assert isinstance(found, Parameters)


# Options, the environment and the file.


class LoadedError(Exception):
    """Says that a command has come as far as its configuration."""


OPTIONS = [  # option, variable, place in the document, two values and what becomes of them
    ("--address", "KCAGC_ADDRESS", ("network", "address"), "one:1", "two:2", False),
    ("--listen", "KCAGC_LISTEN", ("network", "listen"), "one:1", "two:2", False),
    ("--features", "KCAGC_FEATURES", ("data", "features"), "one.csv", "two.csv", True),
    ("--graph", "KCAGC_GRAPH", ("data", "graph"), "one.csv", "two.csv", True),
    ("--output", "KCAGC_OUTPUT", ("output", "folder"), "one", "two", True),
    ("--state", "KCAGC_STATE", ("output", "state"), "one", "two", True),
    ("--peer-timeout", "KCAGC_PEER_TIMEOUT", ("limits", "peer_timeout"), 11.0, 22.0, False),
    ("--engine", "KCAGC_ENGINE", ("engine", "name"), "local", "gpu", False),
    ("--random-state", "KCAGC_RANDOM_STATE", ("me", "random_state"), 11, 22, False),
]


@pytest.fixture
def command(monkeypatch):
    """Run a command up to the configuration that it would run with, and give that."""
    found = []

    def noted(loaded, *_):
        found.append(loaded)
        raise LoadedError

    monkeypatch.setattr("kcagc.deploy.run.RoleRun", noted)
    monkeypatch.setattr("kcagc.deploy.run.RoleRun.predict", noted, raising=False)

    def run(*arguments, **environment):
        done = CliRunner().invoke(cli, list(map(str, arguments)), env=environment)
        assert isinstance(done.exception, LoadedError), (done.output, done.exception)
        return found.pop()

    return run


@pytest.mark.parametrize(("option", "variable", "place", "first", "second", "is_path"), OPTIONS)
def test_an_option_overrides_the_environment_which_overrides_the_file(
    command, folders, tmp_path, monkeypatch, option, variable, place, first, second, is_path
):
    monkeypatch.chdir(tmp_path)
    config = folders["alice"]

    def value(loaded):
        return getattr(getattr(loaded.document, place[0]), place[1])

    def meant(given):
        return str(tmp_path / given) if is_path else given

    in_file = value(command("party", "--config", config))
    assert in_file not in (first, second)
    assert value(command("party", "--config", config, **{variable: str(second)})) == meant(second)
    assert value(command("party", "--config", config, option, first, **{variable: str(second)})) == meant(first)
    assert value(command("party", "--config", config, option, first)) == meant(first)


def test_paths_are_relative_to_the_file_and_in_options_to_the_working_directory(
    command, folders, tmp_path, monkeypatch
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for path in (folders["alice"], folders["alice"].relative_to(here.parent)):  # absolute, and not
        monkeypatch.chdir(here if path.is_absolute() else here.parent)
        loaded = command("party", "--config", path, "--graph", "mine.csv")
        document, folder = loaded.document, folders["alice"].parent
        assert loaded.file(document.data.features).absolute() == folder / "data" / "features.csv"
        assert loaded.file(document.output.folder).absolute() == folder / "result"
        assert loaded.file(document.data.graph).absolute() == (here if path.is_absolute() else here.parent) / "mine.csv"
    edit(folders["alice"], "^state = .*", f'state = "{here}"')
    loaded = command("party", "--config", folders["alice"])
    assert loaded.file(loaded.document.output.state) == here
    edit(folders["alice"], "^state = .*", 'state = "~/kcagc"')
    monkeypatch.setenv("HOME", str(here))
    loaded = command("party", "--config", folders["alice"])
    assert loaded.file(loaded.document.output.state) == here / "kcagc"


def test_the_configuration_itself_may_be_named_by_the_environment(command, folders):
    assert command("party", KCAGC_CONFIG=str(folders["alice"])).me == "alice"
    assert command("party", "--config", folders["bob"], KCAGC_CONFIG=str(folders["alice"])).me == "bob"


def test_the_tables_of_a_prediction_are_those_of_predict(command, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edit(folders["alice"], r"^# (\[predict\]|features|graph|id_column)", r"\1")
    (tmp_path / "model").touch()
    model = ["--model", "model"]
    loaded = command("predict", "--config", folders["alice"], *model, "--features", "x.csv", KCAGC_GRAPH="y.csv")
    assert loaded.document.predict.features == str(tmp_path / "x.csv")
    assert loaded.document.predict.graph == str(tmp_path / "y.csv")
    assert loaded.document.data.features == "data/features.csv"


def test_every_option_of_the_roles_is_tested_here():
    """So that an option which is added later comes to be tested, or is found here."""
    fine = {
        "--config",
        "--new-session",
        "--json",
        "--model",
        "--report",
        "--watch",
        "--log-format",
        "--log-json",
        "--wait",
    }
    for command in (roles.party, roles.coordinator, roles.predict):
        listed = {option for one in command.params for option in one.opts}
        assert listed - fine <= {row[0] for row in OPTIONS}
        for one in command.params:
            if one.opts[0] not in ("--new-session", "--json", "--log-json"):
                assert one.envvar == "KCAGC_" + one.opts[0].removeprefix("--").replace("-", "_").upper()


@pytest.mark.parametrize(
    "option", [["--peer-timeout", "soon"], ["--random-state", "x"], ["--peer-timeout", "-5"], ["--address", "x"]]
)
def test_a_wrong_option_is_a_wrong_setting(folders, option):
    done = CliRunner().invoke(cli, ["party", "--config", str(folders["alice"]), *option])
    assert getattr(done.exception, "exit_code", None) == 2 or done.exit_code == 2


@pytest.mark.parametrize(
    ("name", "wrong", "right"), [("alice", "coordinator", "party"), ("coordinator", "party", "coordinator")]
)
def test_a_command_for_another_role_is_refused_with_the_right_one(folders, name, wrong, right):
    done = CliRunner().invoke(cli, [wrong, "--config", str(folders[name])])
    assert isinstance(done.exception, ParameterError)
    assert str(done.exception).endswith(f"run: kcagc {right} --config {folders[name]}")
