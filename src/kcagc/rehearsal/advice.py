"""What a rehearsal advises: the best setting by a stated measure, all that are equally good, and one of them to copy.

Nothing is chosen silently. The measure is the agreement with known classes if there are any, and otherwise the
modularity of held-out edges. Modularity of all edges ranks nothing: it rises with ψ even where smoothing goes too far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc import metrics
from kcagc.cluster.sweep import NEAR_ERRORS
from kcagc.rehearsal.runs import Outcome, Rehearsal
from kcagc.rehearsal.settings import toml_block
from kcagc.text import count, listed, number, size

_RESAMPLES, _RESAMPLED = 30, 5_000  # of the nodes, and at most so many in each
_STABLE = 0.8  # agreement of runs below which a user should know of it
_SHOWN = 8


@dataclass(frozen=True, eq=False)
class Advice:
    """The settings that are equally good, the one to copy, and both in words; no settings if nothing can rank them."""

    best: list[Outcome]
    chosen: Outcome | None
    sentences: list[str]
    block: str  # for kcagc.toml

    @property
    def clear(self) -> bool:
        """Whether one setting is better than all others."""
        return len(self.best) == 1


def advise(rehearsal: Rehearsal) -> Advice:
    """Compare the settings that ran."""
    ran = [one for one in rehearsal.outcomes if one.ok]
    if not ran:
        return Advice([], None, ["No setting ran; each has its reason in the list of settings that were refused."], "")
    if len(ran) == 1:
        refused = len(rehearsal.outcomes) - 1
        words = "One setting was tried." if not refused else "Only one setting ran; the others were refused."
        return Advice(ran, ran[0], [words, *_about(rehearsal, ran[0])], _block(rehearsal, ran[0]))
    scores, name = _scores(rehearsal, ran)
    if not scores:
        why = f"No edges were held out, because {rehearsal.no_edges}" if rehearsal.no_edges else "Some runs failed"
        text = (
            f"{why}, and there are no known classes, so nothing can say which of the {len(ran)} settings is best. "
            "Modularity of all edges rises with ψ even where smoothing goes too far; do not choose by it."
        )
        return Advice([], None, [text], "")
    top = ran[int(np.argmax(scores))]
    spread = _spread_of_runs(rehearsal, ran)
    best = [
        one
        for one, score in zip(ran, scores, strict=True)
        if one is top or max(scores) - score <= NEAR_ERRORS * max(spread, _error(rehearsal, one, top))
    ]
    chosen = min(best, key=lambda one: (_accepted(one), np.mean([run.bytes for run in one.runs])))
    sentences = [f"{name} is highest for {top.setting.title} ({max(scores):.3f})."]
    if len(best) > 1:
        others = listed([one.setting.title for one in best if one is not top], _SHOWN)
        sentences.append(
            f"{count(len(best), 'setting')} are about equally good: this one, and {others}. Their difference to it is "
            "no larger than chance explains."
        )
        few = "needs no further acceptance and " if any(map(_accepted, best)) and not _accepted(chosen) else ""
        sentences.append(
            f"The lines below are those of {chosen.setting.title}, which {few}sends the fewest bytes of these "
            f"({size(float(np.mean([one.bytes for one in chosen.runs])))}). Choose among them with your knowledge of "
            "the data and of what may be disclosed."
        )
    else:
        sentences.append("It is clearly better than every other setting that ran.")
    if len(rehearsal.grid.seeds) == 1:
        sentences.append(
            "There was one run of each setting, so these words do not take into account how much runs differ from each "
            "other. Give --runs 3."
        )
    sentences += _about(rehearsal, chosen)
    return Advice(best, chosen, sentences, _block(rehearsal, chosen))


def _scores(rehearsal: Rehearsal, ran: list[Outcome]) -> tuple[list[float], str]:
    """Return the measure of each setting and its name; no measures if a setting has none."""
    if rehearsal.parties.classes is not None:
        return [
            float(np.mean(rehearsal.known(one, "ari"))) for one in ran
        ], "ARI, the agreement with the known classes,"
    found = [rehearsal.held_out(one) for one in ran]
    known = [one for one in found if one is not None]
    return (known if len(known) == len(found) else []), "The modularity of held-out edges"


def _spread_of_runs(rehearsal: Rehearsal, ran: list[Outcome]) -> float:
    """Return the standard error of the difference of two settings that the seeds cause.

    All settings share one estimate: that of a single setting, from a few runs, would vary too much.
    """
    known = rehearsal.parties.classes is not None
    each = [rehearsal.known(one, "ari") if known else rehearsal.held_out_each(one) for one in ran]
    if len(each[0]) < 2:
        return 0.0
    return float(np.sqrt(2 * np.mean([np.var(one, ddof=1) for one in each]) / len(each[0])))


def _error(rehearsal: Rehearsal, one: Outcome, top: Outcome) -> float:
    """Return the standard error of the difference of two settings that the choice of edges or nodes causes."""
    if rehearsal.parties.classes is None:
        return rehearsal.held_out_error(one, top)
    return _resampled_error(rehearsal, one, top)


def _resampled_error(rehearsal: Rehearsal, one: Outcome, top: Outcome) -> float:
    """Return the standard error of the difference in ARI if other nodes had been drawn (bootstrap)."""
    nodes, true = rehearsal.classified
    random, found = np.random.RandomState(0), []
    size = min(len(nodes), _RESAMPLED)
    pair = [each.runs[0].labels[nodes] for each in (one, top)]
    for _ in range(_RESAMPLES):
        drawn = random.randint(len(nodes), size=size)
        first, second = (metrics.ari(true[drawn], labels[drawn]) for labels in pair)
        found.append(first - second)
    return float(np.std(found, ddof=1) * np.sqrt(size / len(nodes)))


def _accepted(outcome: Outcome) -> int:
    """Return how many disclosures beyond the default a setting has."""
    return sum(weaker for _, _, weaker in outcome.learned)


def _about(rehearsal: Rehearsal, chosen: Outcome) -> list[str]:
    """Return what else a user should know about the setting to copy."""
    found = []
    psis = sorted({one.psi for one in chosen.runs if one.psi is not None})
    if chosen.setting.psi == "auto" and psis:
        which = listed([str(one) for one in psis], last="or")
        found.append(
            f'With psi = "auto", the runs took ψ = {which}. '
            + (f"psi = {psis[0]} saves the search, and what it discloses." if len(psis) == 1 else "")
        )
    if _accepted(chosen):
        found.append("This setting discloses more than the default; every party must accept it by name.")
    stable = rehearsal.stability(chosen)
    if stable is not None and stable < _STABLE:
        found.append(
            f"Its runs agree with each other by only {number(stable)} (adjusted Rand index): another run may find "
            "other clusters."
        )
    return [one.strip() for one in found]


def _block(rehearsal: Rehearsal, outcome: Outcome) -> str:
    """Return the lines for kcagc.toml, with the risks that all parties accepted if the setting has any."""
    if outcome.session is None:
        return ""
    common = set.intersection(*(set(one.accept) for one in rehearsal.parties.policies.values()))
    return toml_block(outcome.session, sorted(common) if _accepted(outcome) else ())
