"""The file that a fit leaves at every role, to place new nodes later; a party's holds its private share."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.data.preprocessing import FittedRules
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.protocol.local import PartyModel
from kcagc.protocol.parameters import Parameters

FORMAT = "kcagc model 3"


class SavedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which session it was and what it agreed on; where the role has data, a party's share, its ids and its `table`.

    `table` is how the party's table became numbers; a prediction does the same again.
    """

    format: str
    role: str
    session: str
    parameters: Parameters
    share: PartyModel | None = None
    ids: list[str | int] | None = None
    table: FittedRules | None = None

    @classmethod
    def of_party(cls, model: PartyModel, graph: Graph, table: FittedRules | None = None) -> Self:
        """Keep a party's share, which nodes it was made from, and how its table became numbers."""
        ids = None if graph.ids is None else list(graph.ids.values)
        return cls(FORMAT, model.party, model.session, model.parameters, model, ids, table)

    @classmethod
    def of_coordinator(cls, name: str, session: bytes, parameters: Parameters) -> Self:
        """Keep which session it was."""
        return cls(FORMAT, name, session.hex(), parameters)

    def save(self, path: Path) -> None:
        """Write it, for its owner only."""
        write_bytes(path, msgspec.msgpack.encode(self, enc_hook=int), mode=PRIVATE)

    @classmethod
    def load(cls, path: Path, role: str) -> Self:
        """Read a model of this role."""
        try:
            content = path.read_bytes()
            _check_format(content, f"{role}: {path}")
            model = msgspec.msgpack.decode(content, type=cls)
        except OSError as error:
            raise ParameterError(f"{role}: {path}: {error.strerror or error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{role}: {path}: not a model of kcagc: {error}") from error
        if model.role != role:
            raise ParameterError(f"{path}: is the model of {model.role}, not of {role}")
        return model

    def prediction(self) -> Parameters:
        """Give the parameters of a prediction that continues this fit."""
        return msgspec.structs.replace(self.parameters, task="predict", model=self.session)


class _Format(msgspec.Struct):
    """As much of a model as says whether we can read it."""

    format: str


def _check_format(content: bytes, where: str) -> None:
    found = msgspec.msgpack.decode(content, type=_Format).format
    if found != FORMAT:
        raise DataError(f"{where}: is written as {found!r}, and this version of kcagc reads {FORMAT!r}; fit again")
