"""One matching of ids by a role: a run without columns, in its own session and with its own journal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kcagc.data.files import PRIVATE, write_text
from kcagc.data.node_lists import present_nodes, read_ids, table_ids, write_ids
from kcagc.data.party_files import PartyInput
from kcagc.deploy.agreed import note_result
from kcagc.deploy.results import Disclosed, summary_of, write_ledger
from kcagc.deploy.run import Kind, RoleRun
from kcagc.errors import ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.protocol.agreement import Agreement, digest_of_ids
from kcagc.protocol.effects import Role
from kcagc.protocol.local import PartyData
from kcagc.protocol.match import MatchResult, check_match, match_parameters, match_party
from kcagc.runtime.journal import SessionRandomness
from kcagc.secagg.keys import digest


@dataclass(frozen=True, eq=False)
class MatchRun(RoleRun):
    """A matching of ids; `list_file` replaces the ids of the party's table."""

    counts_only: bool = False
    list_file: Path | None = None

    @property
    def kind(self) -> Kind:
        """The kind of run."""
        return "match"

    @cached_property
    def agreement(self) -> Agreement:
        """What all roles must agree on."""
        return self.config.agreement(match_parameters(self.config.parameters(), counts_only=self.counts_only))

    @cached_property
    def ids(self) -> NodeIds | None:
        """The ids of this party; None at a coordinator.

        Without a list, they are those of the table and, if all parties share a graph, of its nodes that the table has.
        """
        me, section = self.config.me, self.config.document.data
        if self.config.role == "coordinator":
            if self.list_file is not None:
                raise ParameterError(f"ids: {me} is a coordinator, which has no ids; leave the option out")
            return None
        if self.list_file is not None:
            return read_ids(self.list_file, party=me)
        if section is None:
            raise ParameterError(f"{self.config.path}: a party needs a section [data]")
        files = self.config.data_files(section)
        if section.graph is not None and self.agreement.parameters.graph == "shared":
            del files["weight"], files["node_list"]
            return present_nodes(**files, party=me)
        wanted = ("features", "id_column", "feature_ids", "csv")
        return table_ids(**{name: files[name] for name in wanted}, party=me)

    @cached_property
    def input(self) -> PartyInput | None:
        """No columns: a matching reads ids only."""
        return None

    @cached_property
    def data(self) -> PartyData | None:
        """No table: a matching reads ids only."""
        return None

    def check_data(self) -> None:
        """Raise an error if the ids cannot be used."""
        if self.ids is not None:
            check_match(self._context(SessionRandomness.fresh(0)), self.ids)

    @cached_property
    def made_from(self) -> dict[str, bytes]:
        """Digests of everything that must not change during a session."""
        found = {} if self.ids is None else {"the data": digest("ids", digest_of_ids(self.ids))}
        return super().made_from | found

    def _party(self, randomness: SessionRandomness) -> Role[Any]:
        if self.ids is None:
            raise ParameterError(f"{self.config.me}: has no ids")
        return match_party(self._context(randomness), self.ids)

    def write(self, result: Any, disclosed: Disclosed) -> dict[str, Any]:
        """Write the list of common ids, the ledger and the summary, and return the summary."""
        files = self.files
        write_ledger(files, disclosed)
        summary = summary_of(self.config.me, self.agreement, result, disclosed)
        if self.config.approved is not None:
            summary["agreement"] = self.config.approved.as_dict()
        written = {"ledger": files.ledger}
        if isinstance(result, MatchResult) and result.ids is not None:
            write_ids(files.labels, result.ids)
            written["node_list"] = files.labels
        summary["files"] = {what: path.name for what, path in written.items()}
        write_text(files.summary, json.dumps(summary, indent=2, ensure_ascii=False) + "\n", mode=PRIVATE)
        note_result(self.config, summary)
        return summary
