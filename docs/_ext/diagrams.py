"""The drawings of the concepts pages, one function each."""

from __future__ import annotations

from collections.abc import Callable

from canvas import Canvas
from gallery import fraud_ring, hospitals
from result import result

NAMES = ("bank", "telecom", "shop")


def whole() -> str:
    """Draw the participants of a run and their messages."""
    c = Canvas(
        "whole",
        680,
        300,
        "Three parties connect to a coordinator that relays encrypted messages and compares masked sums",
    )
    for number, name in enumerate(NAMES):
        y = 20 + 95 * number
        c.box(10, y, 190, 72, [name, "own columns, shared graph"], name)
        c.arrow(204, y + 36, 474, 150 + 22 * (number - 1), both=True)
    c.box(
        480,
        95,
        180,
        110,
        ["coordinator", "relays messages,", "compares masked sums,", "holds no data"],
        "coordinator",
    )
    c.text(336, 22, "up: masked differences, encrypted messages", "dim")
    c.text(336, 288, "down: the sign of each sum, encrypted messages", "dim")
    return c.svg()


def protocol_1() -> str:
    """Draw the steps of one party alone."""
    c = Canvas("local", 760, 210, "Protocol 1: filter, project, seed, margin-9 step, Lloyd, local clusters")
    steps = [
        ["table X", "n rows of", "own columns"],
        ["filter", "averages along", "edges, ψ times"],
        ["project", "top singular", "vectors"],
        ["seed", "k̂ centres", "far apart"],
        ["margin-9 step", "only clear wins", "move centres"],
        ["Lloyd", "until nothing", "moves"],
    ]
    for number, lines in enumerate(steps):
        x = 4 + 127 * number
        c.box(x, 20, 114, 84, lines, "bank")
        if number:
            c.arrow(x - 12, 62, x - 1, 62)
    c.path("M700 104 L700 140", arrow=True)
    c.box(580, 142, 174, 54, ["k̂ local clusters", "a label for every node"], "bank")
    c.text(10, 150, "All of this happens at one party, on its own columns.", "dim", "start")
    c.text(10, 170, "The party has not sent anything yet.", "dim", "start")
    return c.svg()


def protocol_2() -> str:
    """Draw one round of collaborative k-means."""
    c = Canvas(
        "basic",
        760,
        320,
        "Protocol 2: differences of squared distances are added over the parties; the answer is their sign",
    )
    for number, name in enumerate(NAMES):
        y = 14 + 92 * number
        c.box(8, y, 230, 72, [name, "±f·(‖xᵢ−cᵣ‖² − ‖xᵢ−cₛ‖²)", "plus masks"], name)
        c.arrow(240, y + 36, 396, 142 + 20 * (number - 1))
    c.box(402, 98, 158, 88, ["sum", "masks cancel:", "±f·(Dᵢᵣ − Dᵢₛ)"], "coordinator")
    c.arrow(562, 142, 604, 142)
    c.box(608, 98, 146, 88, ["answer", "the sign", "of each sum"], "coordinator")
    c.path("M681 188 L681 300 L124 300 L124 273", dashed=True, arrow=True)
    c.text(402, 292, "every party moves its own part of the centres; next round", "dim")
    return c.svg()


def protocol_3() -> str:
    """Draw cells: intersections of two parties' local clusters."""
    c = Canvas("cells", 760, 330, "Protocol 3: nodes that fall into the same local clusters at every party form a cell")
    left, top, size = 60, 30, 250
    for at in (0, 84, 167, 250):
        c.rule(left + at, top, left + at, top + size, "bank")
        c.rule(left, top + at, left + size, top + at, "telecom")
    for number in range(3):
        c.text(left + 42 + 83 * number, top - 10, f"bank {number}", "dim")
        c.text(left - 8, top + 46 + 83 * number, f"tel. {number}", "dim", "end")
    clouds = {(0, 0): 7, (1, 0): 2, (1, 1): 8, (2, 1): 4, (2, 2): 7, (0, 2): 3}
    random = 7
    for (column, row), count in clouds.items():
        for _ in range(count):
            random = (random * 1103515245 + 12345) % 2**31
            x = left + 83 * column + 12 + (random >> 8) % 60
            random = (random * 1103515245 + 12345) % 2**31
            y = top + 83 * row + 12 + (random >> 8) % 60
            c.dot(x, y, 2.6, "plain")
        c.dot(left + 83 * column + 42, top + 83 * row + 42, 5 + count, "coordinator", hollow=True)
    c.text(left + 125, top + size + 30, "6 of 9 cells have nodes; each is one weighted point", "dim")
    c.box(420, 40, 320, 62, ["exchanged once", "the local label of every node"], "bank")
    c.arrow(580, 104, 580, 126)
    c.box(420, 130, 320, 62, ["cells", "at most min(n, k̂ᴸ), only those with nodes"], "coordinator")
    c.arrow(580, 194, 580, 216)
    c.box(420, 220, 320, 62, ["Protocol 2 on cells", "comparisons no longer grow with the nodes"], "coordinator")
    return c.svg()


def protocol_4() -> str:
    """Draw masks that cancel."""
    c = Canvas("masks", 760, 300, "Protocol 4: one party adds a mask, another subtracts it; only the sum is visible")
    rows = [("bank", "x₁", "+ r₁₂ + r₁₃"), ("telecom", "x₂", "− r₁₂ + r₂₃"), ("shop", "x₃", "− r₁₃ − r₂₃")]
    for number, (name, value, masks) in enumerate(rows):
        y = 20 + 90 * number
        c.box(10, y, 130, 62, [name, f"has {value}"], name)
        c.arrow(142, y + 31, 196, y + 31)
        c.box(200, y, 200, 62, [f"{value} {masks}", "uniform noise by itself"], name)
        c.arrow(402, y + 31, 508, 148 + 22 * (number - 1))
    c.box(
        512,
        96,
        236,
        108,
        ["x₁ + x₂ + x₃", "every r occurs once with +", "and once with −", "modulo 2⁶⁴"],
        "coordinator",
    )
    c.text(630, 240, "rᵢⱼ: ChaCha20 words of a key", "dim")
    c.text(630, 258, "that only i and j can derive,", "dim")
    c.text(630, 276, "a new key for every sum", "dim")
    return c.svg()


def tree() -> str:
    """Draw how many parties merge."""
    c = Canvas("tree", 760, 270, "The tree: four neighbours merge at a time, the root gives the k clusters")
    for number in range(12):
        x = 12 + 62 * number
        c.box(x, 206, 52, 44, [f"P{number + 1}"], NAMES[number // 4])
    for group in range(3):
        middle = 12 + 248 * group + 119
        c.box(middle - 88, 112, 176, 54, [f"merge 1.{group + 1}", "cells of 4 → k̂ clusters"], NAMES[group])
        for child in range(4):
            c.arrow(12 + 248 * group + 26 + 62 * child, 204, middle - 54 + 36 * child, 169)
        c.arrow(middle, 110, 380 + 70 * (group - 1), 69)
    c.box(260, 12, 240, 54, ["root 2.1", "cells of 3 → k clusters"], "coordinator")
    c.text(640, 38, "merges of one layer run", "dim")
    c.text(640, 56, "at the same time", "dim")
    return c.svg()


def prediction() -> str:
    """Draw how a new node is assigned."""
    c = Canvas("predict", 760, 256, "Prediction: a new node goes to the centre with the smallest sum of distances")
    c.box(8, 70, 150, 84, ["new node", "a row at each party,", "edges at all"], "plain")
    c.arrow(160, 112, 194, 112)
    for number, name in enumerate(NAMES):
        y = 10 + 74 * number
        c.box(200, y, 226, 60, [name, "distances to its own centres"], name)
        c.arrow(428, y + 30, 494, 112 + 16 * (number - 1))
    c.text(313, 246, "filtered and projected as in the fit; nothing is fitted again", "dim")
    c.box(500, 78, 110, 68, ["masked sums", "signs only"], "coordinator")
    c.arrow(612, 112, 640, 112)
    c.box(644, 78, 108, 68, ["cluster", "nearest of k"], "coordinator")
    return c.svg()


def joint() -> str:
    """Draw the steps of the joint method: what the parties hold, what travels, what the coordinator computes."""
    c = Canvas(
        "joint",
        760,
        612,
        "The joint method: the parties send components, rows and centres that are hidden by pads and secret rotations; "
        "the coordinator computes with them and returns directions, shares and signs",
    )
    c.text(144, 22, "parties", "strong")
    c.text(616, 22, "coordinator", "strong")
    steps = [  # parties that act, their box, what goes up, what the coordinator does, what comes back
        (3, ["1  components", "filter and project own columns"], "", [], ""),
        (
            3,
            ["2  joint subspace", "components of the nodes"],
            "plus pads",
            ["covariances, directions", "of the components of all parties"],
            "joint rows, in two shares",
        ),
        (
            2,
            ["3  unit rows", "each turned by its own rotation"],
            "masked, in secret order",
            ["rows of random direction", "scaled to length 1"],
            "in two shares",
        ),
        (
            2,
            ["4a  scores", "shares of rows and centres"],
            "plus pads",
            ["products", "of padded rows and centres"],
            "in two shares",
        ),
        (
            2,
            ["4b  comparisons", "is another centre nearer?"],
            "blinded differences",
            ["sign of each number", "a coin flip for the coordinator"],
            "signs, to all parties",
        ),
        (3, ["5  result", "the cluster of every node"], "", [], ""),
    ]
    for number, (acting, lines, up, there, back) in enumerate(steps):
        y = 38 + 93 * number
        c.box(24, y, 240, 62, lines, "plain")
        for party in range(acting):
            c.dot(38 + 12 * party, y + 12, 3.4, NAMES[party])
        if there:
            c.box(506, y, 240, 62, there, "coordinator")
            c.arrow(268, y + 20, 502, y + 20)
            c.text(385, y + 13, up, "dim")
            c.arrow(502, y + 44, 268, y + 44)
            c.text(385, y + 60, back, "dim")
        if number:
            c.arrow(144, y - 29, 144, y - 2)
    c.path("M24 441 L8 441 L8 348 L21 348", dashed=True, arrow=True)
    c.text(156, 400, "one round of k-means, repeated", "dim", "start")
    c.text(282, 74, "nothing is sent in this step", "dim", "start")
    c.text(282, 539, "known to the parties only", "dim", "start")
    for x, name in zip((38, 100, 178), NAMES, strict=True):
        c.dot(x, 593, 3.4, name)
        c.text(x + 9, 597, name, "dim", "start")
    c.text(282, 597, "From step 2 on, two parties hold shares of the rows: the holders.", "dim", "start")
    return c.svg()


DIAGRAMS: dict[str, Callable[[], str]] = {
    "result": result,
    "fraud-ring": fraud_ring,
    "hospitals": hospitals,
    "whole": whole,
    "protocol-1": protocol_1,
    "protocol-2": protocol_2,
    "protocol-3": protocol_3,
    "protocol-4": protocol_4,
    "tree": tree,
    "joint": joint,
    "prediction": prediction,
}
