"""The page `disclosure.md` and the figures on it. `make disclosure` writes both from the results of `make attack`."""

from __future__ import annotations

import re
from pathlib import Path

from claims import plain_figures

from kcagc.disclosure import page as source
from kcagc.disclosure.page import describe_run
from kcagc.protocol.agreement import Agreement, Participant
from kcagc.protocol.parameters import RunSettings
from kcagc.protocol.plan import outline

FIGURES = Path(source.__file__).with_name("figures.json")
PAGE = Path(__file__).parents[1] / "disclosure.md"
README = Path(__file__).parents[2] / "README.md"
PARTIES = ("bank", "telecom", "shop")
_CORRELATION = r"correlation of [0-9.]+(?: to [0-9.]+)? with the true"
_NOTE = """\
*This is an example: three parties and the default settings, five clusters. `kcagc check --disclosure` prints this page
for your own configuration.*
"""


def page() -> str:
    """Return the page of the bank, with a note on where it comes from below the title."""
    participants = [Participant(name, "party", b"") for name in PARTIES]
    coordinator = Participant("coordinator", "coordinator", b"")
    parameters = RunSettings(n_clusters=5).resolve(len(PARTIES))
    agreement = Agreement(participants=(*participants, coordinator), parameters=parameters)
    title, text = describe_run(outline(agreement), "bank").as_markdown(links=True).split("\n\n", 1)
    return f"{title}\n\n{_NOTE}\n{text}"


def readme(text: str) -> str:
    """Return the text of the README with the figure of a coordinator that works together with a party."""
    figure = source.FIGURES.get("collusion")
    found = re.search(_CORRELATION, figure.text) if figure else None
    return re.sub(_CORRELATION, found[0], text) if found else text


if __name__ == "__main__":
    FIGURES.write_text(plain_figures(), encoding="utf-8")
    source.FIGURES.clear()
    source.FIGURES.update(source.read_figures())
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
