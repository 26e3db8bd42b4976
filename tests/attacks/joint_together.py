"""Roles that put together what they know in the joint method: the coordinator with one party, and both holders."""

from __future__ import annotations

from typing import Any

import numpy as np

from attacks.joint import (
    binary_columns,
    column_auc,
    explained,
    graph_basis,
    joint_case,
    r_squared,
    side_by_side,
    truth,
)
from attacks.results import Figure
from attacks.transcripts import Transcript, has_data, recorded
from kcagc.protocol.messages import Padded
from kcagc.secagg.shares import COMPONENT_BITS, DIRECTION_BITS, JOINT_BITS, pad
from kcagc.simulation import COORDINATOR

TITLE = "Roles that cooperate, joint method"
SENTENCES = {
    "joint-collusion": (
        "The coordinator and any party, holder or not, together remove all pads: they know the components of every "
        "other party exactly, up to a rotation, and predict single columns from them."
    ),
    "joint-holders": (
        "Both holders together, without the coordinator, know the joint directions and the joint rows of the sample. "
        "With three parties they know the third party's part exactly, with more the sum of the others' parts."
    ),
}


def components_of(transcript: Transcript, name: str) -> np.ndarray:
    """Remove the pad from a party's components: the coordinator has these, and every party has the key of the pads."""
    (one,) = (message for event, message in transcript.messages(Padded) if event.sender == name)
    words = np.frombuffer(one.words, dtype="<u8").astype(np.uint64).reshape(-1, one.n_components)
    (key,) = transcript.group_keys().values()
    return (words - pad(key, transcript.session_id(), "components", name, shape=words.shape)).view(np.int64)


def part_of_others(shares: list[Any], own: list[np.ndarray]) -> np.ndarray:
    """Return the joint rows, less the parts of the two holders: their components times their directions."""
    rows = np.ldexp((shares[0].rows + shares[1].rows).astype(float), -JOINT_BITS)
    directions = np.ldexp((shares[0].directions + shares[1].directions).astype(float), -DIRECTION_BITS)
    mine = np.hstack(own)
    return rows - mine @ directions[: mine.shape[1]]


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the coalitions."""
    runs = [("demo", 3, "party-1"), ("demo", 3, "party-3"), ("demo", 3, "holders")]
    if not short:
        runs += [("narrow", 2, "party-1"), ("narrow", 3, "holders"), ("narrow", 4, "holders")]
        runs += [("cora", 2, "party-1"), ("cora", 3, "party-3"), ("cora", 3, "holders")] if has_data("cora") else []
    return [dict(zip(("data", "parties", "together"), run, strict=True)) for run in runs]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Put the transcripts of some roles together."""
    here = joint_case(case["data"], case["parties"])
    run = recorded(here)
    true, data = truth(run), f"{case['data']}, {case['parties']} parties"
    if case["together"] == "holders":
        names = ("party-1", "party-2")
        own = [true.components[name] for name in names]
        claim, wanted = part_of_others([run.inside.shares[name] for name in names], own), true.others(*names)
        base = explained([side_by_side([*own, graph_basis(here)])], wanted, 0.5)
        what = "third party's part" if case["parties"] == 3 else "sum of the other parties' parts"
        by, values = "shares of both holders", (r_squared(claim, wanted), base, None, len(wanted))
        return [Figure("both holders", "joint", data, f"{what} of the joint rows", by, "R²", *values, "joint-holders")]
    me = case["together"]
    others = [name for name in true.components if name != me]
    name, seen = others[-1], run.of(COORDINATOR, me)
    claims = {other: components_of(seen, other) for other in others}
    right = np.mean([
        np.mean(claims[other] == np.rint(np.ldexp(true.components[other], COMPONENT_BITS))) for other in others
    ])  # fmt: skip
    columns = binary_columns(here.tables()[list(true.components).index(name)])
    sets = [side_by_side([claims[name].astype(float)])], [side_by_side([true.components[me], graph_basis(here)])]
    areas = [column_auc(one, columns) for one in sets]
    role, by = "coordinator with one party", f"key of the pads, with {me}"
    return [
        Figure(role, "joint", data, "components of all other parties", by, "exact numbers", float(right), 0.0, None,
               sum(one.size for one in claims.values()), "joint-collusion"),
        Figure(role, "joint", data, "single columns, half of the nodes known", by, "AUC", *areas, None,
               columns.shape[1], "joint-collusion"),
    ]  # fmt: skip
