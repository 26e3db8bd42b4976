"""What a party brings to a run: its files read, its rules applied, and what is worth telling about both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcagc.deploy.config import Config, DataSection, NewDataSection
from kcagc.errors import DataError
from kcagc.files.party import PartyFiles, read_party
from kcagc.protocol.local import PartyData
from kcagc.tables import KeptTable, TableRules, fit_table


@dataclass(frozen=True, eq=False)
class PartyInput:
    """A party's numbers on the graph, how they were made of its table, and what was left out or filled in."""

    data: PartyData
    kept: KeptTable
    files: PartyFiles
    rules: TableRules | None  # None in a prediction, which has those of the fit

    @property
    def columns(self) -> list[str]:
        """What the columns of the numbers are called."""
        return self.kept.names()

    def told(self) -> dict[str, Any]:
        """Say, for the summary of a run, which nodes took part and what became of the columns."""
        files = self.files
        nodes: dict[str, Any] = {"nodes": "all" if files.listed is None else "list"}
        if files.listed is not None:
            nodes |= {
                "listed": files.listed,
                "rows_left_out": files.rows_left_out,
                "rows_filled_in": files.rows_filled_in,
                "edges_left_out": files.edges_left_out,
            }
        made = {"columns_read": len(self.kept.columns), "columns_made": len(self.columns)}
        return {**nodes, **made, **({} if self.rules is None else {"rules": self.rules.as_dict()})}


def read_input(config: Config, section: NewDataSection, kept: KeptTable | None = None) -> PartyInput:
    """Read the files of a section; `kept` is how the table of a fit became numbers, for a prediction."""
    settings = config.document.session
    rules = section.rules() if isinstance(section, DataSection) else TableRules()

    def where(name: str | None) -> Path | None:
        return None if name is None else config.file(name)

    files = read_party(
        config.file(section.features),
        config.file(section.graph),
        party=config.me,
        id_column=section.id_column,
        feature_ids=where(section.feature_ids),
        source=section.source,
        target=section.target,
        weight=section.weight,
        graph_ids=where(section.graph_ids),
        reading=rules.reading() if kept is None else kept.reading(),
        node_list=where(section.node_list),
    )
    fitted = fit_table(rules, files.table) if kept is None else kept
    try:
        values = fitted.apply(files.table)
    except DataError as error:
        if error.party:
            raise
        raise DataError(f"{config.file(section.features)}: {error}", party=config.me) from error
    data = PartyData.build(config.me, files.graph, values, settings.graph_filter())
    return PartyInput(data, fitted, files, rules if kept is None else None)
