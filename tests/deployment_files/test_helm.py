"""The Helm chart: it renders, runs without rights, probes what exists, and hands each role only what it needs."""

import json

import jsonschema
import pytest
import yaml

import kcagc
from deployment_files.helm import CHART, render, values
from kcagc.cli.main import cli
from kcagc.deploy.folders import CONFIG, RoleFiles

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
PARTY = {"secret": "bank-role", "dataClaim": "bank-data"}
CASES = {
    "coordinator": values(coordinator={"address": "kcagc.example.org:7443"}),
    "coordinator with a class": values(coordinator={"address": "kcagc.example.org:7443", "storageClass": "fast"}),
    "party that waits": values(role="party", party=PARTY),
    "party of one run": values(role="party", party={**PARTY, "wait": False, "storageClass": "fast"}),
}
EACH = pytest.mark.parametrize("case", CASES)


def objects(case):
    return {one["kind"]: one for one in render(CASES[case])}


def pod(case):
    found = objects(case)
    return (found.get("StatefulSet") or found["Job"])["spec"]["template"]["spec"]


def container(case):
    (only,) = pod(case)["containers"]
    return only


def test_the_chart_is_of_this_version():
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == kcagc.__version__


def test_the_values_fit_their_schema_and_mistakes_do_not():
    validator = jsonschema.Draft7Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    for given in CASES.values():
        validator.validate(given)
    wrong = [
        values(),  # a coordinator without an address
        values(role="party"),  # a party without secret and data
        values(role="observer"),
        values(coordinator={"address": "kcagc.example.org"}),
        values(coordinator={"address": "kcagc.example.org:7443", "prot": 1}),
        values(coordinator={"address": "kcagc.example.org:7443", "port": 443}),
        {**CASES["coordinator"], "party": {**values()["party"], "storage": "much"}},
    ]
    assert [validator.is_valid(given) for given in wrong] == [False] * len(wrong)


def test_each_kind_of_role_has_its_objects():
    kinds = {case: sorted(objects(case)) for case in CASES}
    assert kinds == {
        "coordinator": ["Service", "StatefulSet"],
        "coordinator with a class": ["Service", "StatefulSet"],
        "party that waits": ["PersistentVolumeClaim", "StatefulSet"],
        "party of one run": ["Job", "PersistentVolumeClaim"],
    }


@EACH
def test_a_role_has_no_rights(case):
    spec, only = pod(case), container(case)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {one["mountPath"] for one in only["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"/work", "/tmp"}  # noqa: S108
    assert only["resources"] == values()["resources"]
    assert only["image"] == f"kcagc:{kcagc.__version__}"


@EACH
def test_every_mount_has_a_volume(case):
    found = objects(case)
    claims = found.get("StatefulSet", {"spec": {}})["spec"].get("volumeClaimTemplates", [])
    volumes = {one["name"] for one in pod(case)["volumes"]} | {one["metadata"]["name"] for one in claims}
    assert volumes == {one["name"] for one in container(case)["volumeMounts"]}


@EACH
def test_a_role_starts_a_command_that_exists(case):
    command, *arguments = container(case)["args"]
    parameters = cli.get_command(None, command).params
    options = {one for parameter in parameters for one in parameter.opts}
    assert {one for one in arguments if one.startswith("--")} <= options
    variables = {one["name"] for one in container(case).get("env", [])}
    assert variables <= {parameter.envvar for parameter in parameters}


def test_the_coordinator_listens_where_the_service_and_the_probes_are():
    service, only = objects("coordinator")["Service"], container("coordinator")
    ports = {one["name"]: one["containerPort"] for one in only["ports"]}
    named = dict(zip(only["args"], only["args"][1:], strict=False))
    assert named["--listen"] == f"0.0.0.0:{ports['kcagc']}"
    assert named["--metrics"] == f"0.0.0.0:{ports['metrics']}"
    assert named["--address"] == "kcagc.example.org:7443"
    assert [one["targetPort"] for one in service["spec"]["ports"]] == ["kcagc"]  # and not the metrics
    labels = objects("coordinator")["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert only[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    (claim,) = objects("coordinator with a class")["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize("case", ["party that waits", "party of one run"])
def test_a_party_gets_its_files_from_a_secret_where_its_configuration_expects_them(case):
    volumes = {one["name"]: one for one in pod(case)["volumes"]}
    files = {one["path"] for one in volumes["role"]["secret"]["items"]}
    named = RoleFiles()
    assert files == {CONFIG, named.ca, named.certificate, named.identity, named.key}
    assert volumes["role"]["secret"]["secretName"] == "bank-role"
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "bank-data", "readOnly": True}
    assert (
        volumes["work"]["persistentVolumeClaim"]["claimName"]
        == objects(case)["PersistentVolumeClaim"]["metadata"]["name"]
    )
    environment = {one["name"]: one["value"] for one in container(case)["env"]}
    assert environment["KCAGC_FEATURES"] == "/data/features.csv"
    assert "ports" not in container(case)
    assert ("--wait" in container(case)["args"]) == (case == "party that waits")


def test_a_job_stops_where_a_person_must_act():
    from deployment_files.test_units import UNITS, read

    (rule,) = objects("party of one run")["Job"]["spec"]["podFailurePolicy"]["rules"]
    unit = next(path for path in UNITS if "party" in path.name)
    never = read(unit)["Service"]["RestartPreventExitStatus"].split()
    assert rule["onExitCodes"]["values"] == [int(code) for code in never]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["containerName"] == container("party of one run")["name"]
