"""The curious coordinator in the joint method: padded numbers, covariances, rows of blinded length, comparisons.

In the form "coordinator" it sees components without names: what it recognises there is in `anonymous`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import nnls

from attacks.coordinator import (
    Reporter,
    check_figures,
    entropy_information,
    link_figures,
    magnitude_figures,
    sign_figures,
)
from attacks.joint import (
    bias,
    graph_basis,
    joint_case,
    predicted,
    r_squared,
    side_by_side,
    truth,
    unit,
)
from attacks.results import Figure
from attacks.transcripts import Case, Recording, Transcript, has_data, record_prediction, recorded
from kcagc.cluster.lloyd import squared_distances
from kcagc.protocol.components import Components
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Padded, Step
from kcagc.secagg.blinding import secret_order
from kcagc.secagg.keys import framed
from kcagc.secagg.shares import COMPONENT_BITS, JOINT_BITS, LENGTH_OCTAVES, ROTATION_BITS, row_factors

TITLE = "The coordinator, joint method"
SENTENCES = {
    "joint-noise": "Padded components, rows, centres and directions are uniform noise to the coordinator.",
    "joint-lengths": (
        "The length of a row that the coordinator sees says little about the length of the joint row: at most 0.12 bit "
        "for each row. Its direction says nothing."
    ),
    "joint-spread": (
        "From all rows together, the coordinator can estimate how long joint rows are on the whole, and roughly how "
        "many of them are zero."
    ),
    "joint-comparisons": (
        "The comparisons of the joint method tell the coordinator as little as those of the other methods: signs are "
        "coin flips, sizes tell at most 0.12 bit, and numbers about the same node cannot be found."
    ),
    "joint-checks": (
        "In the joint method, the size of a number says a little about whether it is a check. Comparisons of costs "
        "that are nearly equal can be recognised: the coordinator sees that attempts have ended in the same clusters."
    ),
    "joint-covariances": (
        "The coordinator sees the singular values of each party's components, and how much the columns of two parties "
        "have in common."
    ),
    "joint-guess": (
        "If the coordinator knows the graph, the settings and a party's table up to a few values, the covariances show "
        "whether its guess of the table is right."
    ),
    "joint-anonymous": (
        'With `joint_rows = "coordinator"`, a coordinator that knows the rows of some nodes nearly exactly recognises '
        "these nodes; from the graph and the places of some nodes, it recognises few others."
    ),
}
_BITS, _DEVIATIONS, _LINK_MARGIN = 0.12, 4.5, 0.01
_CHECKS = 0.65  # AUC: differences of the first round are smaller than probes
_LATTICE_ROWS = 24
_SUMS = 4  # lists of comparisons that are attacked: the first, the last, and two between


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    runs = [("demo", 3, form) for form in ("shares", "coordinator")]
    if not short:
        runs += [("narrow", 2, form) for form in ("shares", "coordinator")]
        if has_data("cora"):
            runs += [("cora", 2, "shares"), ("cora", 2, "coordinator"), ("wiki", 2, "coordinator")]
    return [dict(zip(("data", "parties", "form"), run, strict=True)) for run in runs]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Attack one run."""
    run = recorded(joint_case(case["data"], case["parties"], case["form"]))
    report = Reporter(run)
    if case["form"] == "coordinator":
        report.method = "joint, coordinator"
        return anonymous(report, run)
    sums = [one for one in run.coordinator().opened() if one.step == Step.LLOYD]
    sums = [sums[round(place)] for place in np.linspace(0, len(sums) - 1, _SUMS)]
    entries = [run.inside.blinded[one.key].entries() for one in sums]
    about = [
        *link_figures(report, sums, entries),
        *sign_figures(report, sums, entries),
        *magnitude_figures(report, sums, entries),
        *check_figures(report, sums, entries),
    ]
    return [
        *noise_figures(report, run),
        *row_figures(report, run),
        *[_about_joint(one) for one in about],
        *covariance_figures(report, run),
    ]


def _about_joint(one: Figure) -> Figure:
    words = one.attacked.replace("cell or node", "node").replace("difference of distances", "difference of scores")
    changed = {"sentence": "joint-comparisons", "attacked": words}
    if one.sentence == "checks":
        changed |= {"sentence": "joint-checks", "bound": None if one.bound is None else _CHECKS}
    return Figure(**(vars(one) | changed))


# Padded numbers


def padded_words(transcript: Transcript) -> dict[str, np.ndarray]:
    """Return everything that the coordinator holds under pads."""
    found = {f"components of {event.sender}": _words(one.words) for event, one in transcript.messages(Padded)}
    for one in transcript.opened():
        if one.step in (Step.SHARES, Step.SCORES, Step.WEIGHTS):
            found[f"{one.step} {one.number}"] = one.values.view(np.uint64)
    return found


def pad_reused(several: list[np.ndarray]) -> float:
    """Return the largest share of two lists, of all pairs, whose words differ by little: then one pad hid both."""
    most = 0.0
    for place, one in enumerate(several):
        for other in several[:place]:
            count = min(len(one), len(other))
            difference = (one[:count] - other[:count]).view(np.int64)
            most = max(most, float((np.abs(difference) < 1 << 40).mean()))
    return most


def noise_figures(report: Reporter, run: Recording) -> list[Figure]:
    """Look for biased bits, and for two contents under one pad, in this session, a second one and two predictions."""
    case = run.case
    again = recorded(joint_case(case.data, case.parties, session=1)) if case.data in ("demo", "narrow") else run
    runs = [run, again] if again is not run else [run]
    runs += [record_prediction(run, np.arange(5), turn) for turn in (1, 2)]
    several = [words for one in runs for words in padded_words(one.coordinator()).values()]
    count = sum(len(one) for one in several)
    values = bias(np.concatenate(several)), pad_reused(several)
    return [
        report.figure("joint-noise", "padded numbers", "most biased bit", "standard deviations", values[0], 0.0,
                      bound=_DEVIATIONS, count=count),
        report.figure("joint-noise", "padded numbers", "differences of two lists", "words that nearly agree", values[1],
                      0.0, bound=_LINK_MARGIN, count=count),
    ]  # fmt: skip


# Rows of blinded length


def row_figures(report: Reporter, run: Recording) -> list[Figure]:
    """Estimate lengths, directions and factors of the rows that the coordinator scales."""
    seen, true = run.coordinator(), truth(run)
    (opened,) = (one for one in seen.opened() if one.step == Step.ROWS)
    rows = opened.values.reshape(len(true.rows), -1)
    key, session, label = (
        next(iter(run.of("party-1").group_keys().values())),
        seen.session_id(),
        framed(opened.group, 0),
    )
    order = secret_order(key, session, label, len(rows))
    mantissas, octaves = row_factors(key, session, label, count=len(rows))
    factors = np.ldexp(mantissas.astype(float), octaves - 30)[order]
    length = np.log2(np.linalg.norm(true.rows, axis=1))[order]
    real = length > -JOINT_BITS + 4
    shown = np.log2(np.linalg.norm(rows.astype(float), axis=1))
    guess, spread, zeros = estimate_lengths(shown)
    middle = float(np.median(length[real]))
    half = np.arange(len(rows)) % 2 == 0
    directions = unit(rows.astype(float))
    claims = predicted([directions], true.units[order], half)[~half]
    divisors = lattice_factors(rows[:_LATTICE_ROWS])
    step = factors[:_LATTICE_ROWS] / 2.0 ** (JOINT_BITS + ROTATION_BITS)
    right = np.mean(
        [np.any(np.abs(np.array(one) / true_ - 1) < 1e-3) for one, true_ in zip(divisors, step, strict=True)]
    )
    figures = (
        ("joint-lengths", "length of a joint row", "length", "bits for each row, by entropy",
         entropy_information(length[real], factors), 0.0, _BITS),
        ("joint-lengths", "length of a joint row", "best guess from all lengths", "correlation",
         np.corrcoef(guess[real], length[real])[0, 1], 0.0, 0.3),
        ("joint-lengths", "unit row", "direction, order and half of the rows known", "R²",
         r_squared(claims, true.units[order][~half]), 0.0, _LINK_MARGIN),
        ("joint-lengths", "secret factor", "lattice reduction", "right factors", right, 0.0, _LINK_MARGIN),
        ("joint-spread", "median length of joint rows", "all lengths", "octaves off", abs(spread - middle),
         abs(-1 - middle), None),
        ("joint-spread", "rows of zeros", "all lengths", "share off", abs(zeros - (~real).mean()),
         (~real).mean(), None),
    )  # fmt: skip
    return [report.figure(*one[:-1], bound=one[-1], count=len(rows)) for one in figures]


def estimate_lengths(shown: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return the expected logarithm of each length, the median of all, and the share of zeros.

    The factors are spread evenly over known octaves; the distribution of lengths is what fits all sums best.
    """
    first = 58 - LENGTH_OCTAVES
    grid, edges = np.arange(-26.0, 2.5, 0.25), np.arange(first - 30.0, 62.0, 0.25)
    seen = np.histogram(shown, edges)[0] / len(shown)
    low = np.maximum(edges[:-1, None], grid + first)
    share = np.maximum(np.minimum(edges[1:, None], grid + 58) - low, 0) / LENGTH_OCTAVES
    masses = nnls(share, seen)[0] + 1e-12
    masses = masses / masses.sum()
    for _ in range(300):  # more likely step by step
        masses *= share.T @ (seen / np.maximum(share @ masses, 1e-15))
        masses /= masses.sum()
    fits = ((grid + first <= shown[:, None]) & (shown[:, None] < grid + 58.3)) * masses
    lengths = grid > -16
    guess = (fits * lengths) @ grid / np.maximum((fits * lengths).sum(axis=1), 1e-15)
    among = np.cumsum(masses * lengths) / max((masses * lengths).sum(), 1e-15)
    return guess, float(grid[np.searchsorted(among, 0.5)] + 0.125), float(masses[~lengths].sum())


def lattice_factors(rows: np.ndarray) -> list[list[float]]:
    """Return for each row numbers of which all its entries might be multiples: the secret factor, if not hidden."""
    found = []
    for row in rows.tolist():
        scale, entries = 1 << 8, [int(one) for one in row]
        first, rest = entries[0], entries[1:]
        size = len(rest)
        basis = [[4 * scale, *(scale * one for one in rest)]]
        basis += [[0] * (1 + place) + [scale * first] + [0] * (size - 1 - place) for place in range(size)]
        multiples = [abs(one[0]) // (4 * scale) for one in _reduced(basis)[:2]]
        found.append([abs(first) / one for one in multiples if one] or [0.0])
    return found


def _reduced(basis: list[list[int]]) -> list[list[int]]:
    """Return a short basis of a lattice (Lenstra, Lenstra and Lovász), in exact integers."""
    size = len(basis)
    basis = [list(one) for one in basis]
    d, mu = _gram_schmidt(basis)
    k = 1
    while k < size:
        for j in range(k - 1, -1, -1):
            times = round(Fraction(mu[k][j], d[j + 1]))
            if times:
                basis[k] = [a - times * b for a, b in zip(basis[k], basis[j], strict=True)]
                mu[k][j] -= times * d[j + 1]
                for i in range(j):
                    mu[k][i] -= times * mu[j][i]
        if 100 * (d[k + 1] * d[k - 1] + mu[k][k - 1] ** 2) >= 99 * d[k] ** 2:
            k += 1
            continue
        basis[k], basis[k - 1] = basis[k - 1], basis[k]
        for j in range(k - 1):
            mu[k][j], mu[k - 1][j] = mu[k - 1][j], mu[k][j]
        off, last = mu[k][k - 1], d[k]
        d[k] = (d[k - 1] * d[k + 1] + off * off) // last
        for i in range(k + 1, size):
            one = mu[i][k]
            mu[i][k] = (d[k + 1] * mu[i][k - 1] - off * one) // last
            mu[i][k - 1] = (one * d[k] + off * mu[i][k]) // d[k + 1]
        k = max(k - 1, 1)
    return sorted(basis, key=lambda one: sum(x * x for x in one))


def _gram_schmidt(basis: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Return the determinants and coefficients of integral Gram-Schmidt (Cohen, algorithm 2.6.7)."""
    size = len(basis)
    d, mu = [1] + [0] * size, [[0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            value = sum(a * b for a, b in zip(basis[i], basis[j], strict=True))
            for k in range(j):
                value = (d[k + 1] * value - mu[i][k] * mu[j][k]) // d[k]
            if j < i:
                mu[i][j] = value
            else:
                d[i + 1] = value
    return d, mu


# Covariances


def singular_values(transcript: Transcript, name: str) -> np.ndarray:
    """Return the squares of the singular values of a party's components, as the coordinator reads them."""
    (one,) = (message for event, message in transcript.messages(Padded) if event.sender == name)
    block = _words(one.covariance).view(np.int64).reshape(one.n_components, -1).astype(float)
    return np.linalg.eigvalsh(np.ldexp(block, -2 * COMPONENT_BITS))[::-1]


def guessed_values(case: Case, data: PartyData, table: Any, scale: float) -> np.ndarray:
    """Return the squares of the singular values that a table would have: anybody can compute them."""
    guess = PartyData.build("guess", data.graph, table, data.filter)
    components = Components(guess)
    components.compute(case.parameters(), bytes(32))
    return np.sort(np.linalg.svd(components.rows / scale, compute_uv=False) ** 2)[::-1]


def covariance_figures(report: Reporter, run: Recording) -> list[Figure]:
    """Read singular values, and test guesses of a whole table: the right one, and some with one wrong row or value."""
    case, seen, name, true = run.case, run.coordinator(), "party-2", truth(run)
    shown, rows = singular_values(seen, name), true.components[name]
    exact = np.sort(np.linalg.svd(rows, compute_uv=False) ** 2)[::-1]
    data, table = run.data[name], sparse.csr_array(case.tables()[1]).astype(float)
    scale = run.results[name].model.embedder.divisor
    right = _off(shown, guessed_values(case, data, case.tables()[1], scale))
    random, wrong = np.random.default_rng(0), {"value": [], "row": []}
    filled = np.flatnonzero(np.diff(table.indptr))
    for node in random.choice(filled, 4, replace=False):
        for what, off in wrong.items():
            other = table.copy()
            end = other.indptr[node] + 1 if what == "value" else other.indptr[node + 1]
            other.data[other.indptr[node] : end] = 0.0
            other.eliminate_zeros()
            guess = other if sparse.issparse(case.tables()[1]) else other.toarray()
            off.append(_off(shown, guessed_values(case, data, guess, scale)))
    found = [
        report.figure("joint-covariances", "singular values of components", "covariance of one party",
                      "relative error", _off(shown, exact), 1.0, bound=None, count=len(shown)),
    ]  # fmt: skip
    for what, off in wrong.items():
        told = float(np.mean([one > 2 * right for one in off]))
        found.append(
            report.figure("joint-guess", f"a guess of the table with one wrong {what}", "singular values",
                          "recognised as wrong", told, 0.0, bound=None, count=len(off))
        )  # fmt: skip
    return found


def _off(shown: np.ndarray, guess: np.ndarray) -> float:
    count = min(len(shown), len(guess))
    return float(np.abs(shown[:count] - guess[:count]).max() / shown[0])


def _words(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


# The form "coordinator"


def cloud(transcript: Transcript) -> np.ndarray:
    """Return the rows without names that opened."""
    (opened,) = (one for one in transcript.opened() if one.step == Step.GEOMETRY)
    return opened.values[:-1].reshape(-1, int(opened.values[-1])).astype(float) * 2.0**-34


def recognise(points: np.ndarray, known: np.ndarray, tolerance: float) -> np.ndarray:
    """Return for each known row the point that it is, or -1: lengths and distances between points must fit."""
    lengths, own = np.linalg.norm(points, axis=1), np.linalg.norm(known, axis=1)
    between = np.sqrt(squared_distances(known, known))
    fitting = [np.flatnonzero(np.abs(lengths - one) < tolerance) for one in own]
    order = np.argsort([len(one) for one in fitting])
    best = np.full(len(known), -1)
    for start in fitting[order[0]][:200]:
        chain, found = {order[0]: start}, np.full(len(known), -1)
        found[order[0]] = start
        for place in order[1:]:
            left = fitting[place]
            for other, point in chain.items():
                if len(left):
                    left = left[
                        np.abs(np.linalg.norm(points[left] - points[point], axis=1) - between[place, other])
                        < 1.5 * tolerance
                    ]
            if len(left) == 1:
                chain[place] = found[place] = left[0]
        if (found >= 0).sum() > (best >= 0).sum():
            best = found
    return best


def anonymous(report: Reporter, run: Recording) -> list[Figure]:
    """Recognise nodes that the coordinator knows, then others by the graph and the places of the known ones."""
    points, whole = cloud(run.coordinator()), np.hstack([one.rows for one in run.results.values()])
    key, session = next(iter(run.of("party-1").group_keys().values())), run.coordinator().session_id()
    place = np.argsort(secret_order(key, session, framed(next(iter(run.coordinator().opened())).group, 0), len(whole)))
    random, n = np.random.default_rng(3), len(whole)
    filled = np.flatnonzero(np.linalg.norm(whole, axis=1) > 1e-9)
    known = random.choice(filled, max(n // 100, 12), replace=False)
    size, found = np.sqrt((whole**2).sum(axis=1).mean()), []
    for error in (0.0, 0.01, 0.05):
        noise = random.normal(size=(len(known), whole.shape[1])) * error * size / np.sqrt(whole.shape[1])
        along = error * size * (5 / np.sqrt(whole.shape[1]) + error)  # what the error changes of a distance
        claims = recognise(points, whole[known] + noise, max(along, 1e-5))
        found.append(
            report.figure("joint-anonymous", "known nodes", f"their rows with an error of {error:.0%}",
                          "recognised nodes", (claims == place[known]).mean(), 1 / n, bound=None, count=len(known))
        )  # fmt: skip
    basis = side_by_side([graph_basis(run.case)])
    for share in (0.01, 0.1):
        some = np.zeros(n, dtype=bool)
        some[random.choice(filled, max(int(share * n), 12), replace=False)] = True
        smooth = predicted([basis], points[place], some)
        others = np.flatnonzero(~some)
        nearest = squared_distances(smooth[others], points).argmin(axis=1)
        found.append(
            report.figure("joint-anonymous", "other nodes", f"graph, and {share:.0%} of the nodes placed",
                          "recognised nodes", (nearest == place[others]).mean(), 1 / n, bound=None, count=len(others))
        )  # fmt: skip
    frame, _ = np.linalg.qr(whole[known].T)
    rest = np.setdiff1d(np.arange(n), known)
    through = whole[rest] @ frame @ frame.T  # the recognised nodes fix the rotation in their span
    found.append(
        report.figure("joint-anonymous", "components of all points, without names", "rotation fixed by the known nodes",
                      "R²", r_squared(through, whole[rest]), 0.0, bound=None, count=len(rest))
    )  # fmt: skip
    return found
