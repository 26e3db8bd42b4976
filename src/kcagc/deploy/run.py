"""One run of a role: from its configuration, through its journal and its session, to its results."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.held_out import check_edges
from kcagc.cluster.local import confidence
from kcagc.data.party_files import PartyInput, read_party
from kcagc.deploy import interrupts
from kcagc.deploy.agreed import disclose_approvals, note_result, note_session, require_agreed, unless_revoked
from kcagc.deploy.config import Config, DataSection
from kcagc.deploy.results import (
    Disclosed,
    ResultFiles,
    SavedModel,
    keep_earlier_results,
    versions,
    write_ledger,
    write_results,
)
from kcagc.engines.choice import EngineChoice, choose_engine, close_engine, report_progress
from kcagc.errors import DataError, EngineError, KcagcError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.net.tls import Credentials, digest_of
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.effects import Progress, Role, combine_halves
from kcagc.protocol.fit import fit_party
from kcagc.protocol.local import PartyData, PartyModel, labels_key
from kcagc.protocol.parameters import draw_seed
from kcagc.protocol.party import PartyContext
from kcagc.runtime.client import RoleClient, announce_end
from kcagc.runtime.connection import Endpoint
from kcagc.runtime.driver import RoleStatus, Watcher
from kcagc.runtime.durable import RECEIPTS
from kcagc.runtime.journal import (
    InvalidJournalError,
    Journal,
    SessionRandomness,
    Status,
    StoredSession,
    open_session,
    remove,
)
from kcagc.runtime.kept import KEPT, KeptResults
from kcagc.runtime.session import RoleSpec, public_reason
from kcagc.secagg.keys import Identity, digest

logger = logging.getLogger(__name__)

Kind = Literal["fit", "predict", "match"]
NODE_LIST = "nodes.csv"  # the common ids that a matching finds


@dataclass(frozen=True, eq=False)
class RoleRun:
    """A fit of one role, or a prediction if there is a model."""

    config: Config
    model: SavedModel | None = None

    @classmethod
    def predict(cls, config: Config, model: Path) -> RoleRun:
        """Return the run that predicts the clusters of new nodes."""
        if config.role == "party" and config.document.predict is None:
            raise ParameterError(f"{config.path}: a prediction needs a section [predict] with the tables of new nodes")
        return cls(config, SavedModel.load(model, config.me))

    @property
    def kind(self) -> Kind:
        """The kind of run."""
        return "fit" if self.model is None else "predict"

    @cached_property
    def agreement(self) -> Agreement:
        """What all roles must agree on."""
        return self.config.agreement(None if self.model is None else self.model.prediction())

    @cached_property
    def identity(self) -> Identity:
        """The identity key of this role."""
        return self.config.identity()

    @cached_property
    def credentials(self) -> Credentials:
        """The TLS certificate of this role and the authorities it trusts."""
        return self.config.credentials()

    @property
    def endpoint(self) -> Endpoint:
        """What this role presents when a stream opens."""
        certificate = digest_of(self.credentials.certificate)
        return Endpoint(self.config.me, self.identity, self.agreement, self.config.tls_names(), certificate)

    @property
    def journal(self) -> Path:
        """The file of the journal."""
        return journal_path(self.config, self.kind)

    def status(self) -> Status:
        """Return the status of the session in the journal."""
        if not self.journal.exists():
            return "new"
        with contextlib.closing(Journal(self.journal)) as journal:
            return journal.status

    @property
    def files(self) -> ResultFiles:
        """The files of the results."""
        return result_files(self.config, self.kind)

    @cached_property
    def input(self) -> PartyInput | None:
        """A party's files, read, checked and converted to numbers; None at a coordinator."""
        document = self.config.document
        section = document.data if self.model is None else document.predict
        if self.config.role != "party" or section is None:
            return None
        rules = section.rules() if isinstance(section, DataSection) else None
        fitted = None if self.model is None else self.model.table
        try:
            return read_party(**self.config.data_files(section), party=self.config.me, rules=rules, fitted=fitted)
        except DataError as error:
            if self.model is None:
                raise
            raise DataError(f"{error} (for a prediction, the files hold the fitted nodes and the new ones)") from error

    @cached_property
    def data(self) -> PartyData | None:
        """A party's table and graph; None at a coordinator."""
        if self.input is None or self.engine_choice is None:
            return None
        found, chosen = self.input, self.config.document.session.graph_filter()
        engine = self.engine_choice.engine
        return PartyData.build(self.config.me, found.graph, found.features, chosen, found.columns, engine)

    @cached_property
    def engine_choice(self) -> EngineChoice | None:
        """Where a party's own work runs, and why; None at a coordinator."""
        asked = self.config.document.engine.located(self.config.file)
        return None if self.input is None else choose_engine(asked, self.input.features.shape)

    @property
    def graph(self) -> Graph | None:
        """The graph that this role knows."""
        return None if self.data is None else self.data.graph

    @cached_property
    def new_rows(self) -> IntArray | None:
        """The rows to predict; None in a fit."""
        if self.model is None or self.model.share is None or self.data is None:
            return None
        from kcagc.data.memory import rows_to_predict  # noqa: PLC0415 - a fit does not need it

        ids = None if self.model.ids is None else NodeIds.of(self.model.ids, where="model")
        where = f"{self.config.me}: {self.config.path}: predict"
        return rows_to_predict(self.data.graph, ids, self.model.share.n_nodes, where=where)

    def check(self) -> None:
        """Raise an error, before any connection, if the settings, the policy or the data do not allow this run."""
        task, model = self.agreement.parameters.task, None if self.model is None else self.model.parameters
        require_agreed(self.config, task, model=model)
        self.agreement.check()
        self._context(SessionRandomness.fresh(0)).check()
        self.check_data()
        self.check_sessions()

    def check_data(self) -> None:
        """Raise an error if the files cannot be used or hold too few nodes."""
        if self.data is not None:
            self.data.check_filter(self.config.me, self.agreement.parameters.filter)
            parameters, nodes = self.agreement.parameters, self.data.graph.n_nodes
            clusters = max(parameters.n_clusters, parameters.most_clusters)
            if clusters > nodes:
                raise DataError(
                    f"{self.config.me}: n_clusters: {clusters} clusters requested, but there are {nodes} nodes"
                )
            if (parameters.orders or parameters.most_clusters) and self.model is None:
                check_edges(self.data.graph)
        _ = self.new_rows

    @cached_property
    def kept(self) -> KeptResults | None:
        """What earlier sessions sent about the data of a fit; None at a coordinator and in a prediction."""
        if self.data is None or self.model is not None:
            return None
        parties = {one.name: one.identity for one in self.agreement.participants if one.role == "party"}
        return KeptResults(self.journal.with_name(KEPT), self.data.digest, parties)

    def check_sessions(self) -> None:
        """Raise an error if earlier sessions with these data forbid this one, or their records are damaged."""
        if self.kept is not None and self.data is not None:
            self.kept.check(labels_key(self.data, self.agreement.parameters), self.config.policy())

    @cached_property
    def made_from(self) -> dict[str, bytes]:
        """Digests of everything that must not change during a session."""
        document = self.config.document
        accepted, seed = sorted(document.policy.accept), document.me.random_state
        prints = {
            "the role": digest("role", self.config.me, self.config.role),
            "the configuration": digest("configuration", self.agreement.inputs(), *accepted, str(seed)),
            "the installed packages": digest("packages", *(f"{one} {version}" for one, version in versions().items())),
        }
        if self.data is not None:
            share = b"" if self.model is None else digest("model", msgspec.msgpack.encode(self.model.share))
            prints["the data"] = digest("data", self.data.digest, share)
        return prints

    def open_session(self, journal: Journal) -> StoredSession:
        """Open a new session, or the interrupted one that the journal holds."""
        journal.kept = self.kept
        note_session(self.config, self.agreement.parameters.task)
        opened = open_session(journal, self.made_from, self.seed)
        disclose_approvals(self.config, journal)
        return opened

    @cached_property
    def seed(self) -> int:
        """The seed of everything that is not secret.

        It is drawn once per process, so a session that starts again sends the same local labels.
        """
        return draw_seed(self.config.document.me.random_state)

    def role(self, randomness: SessionRandomness) -> Role[Any]:
        """Return the coroutine of this role."""
        if not self.config.listens:
            return self._party(randomness)
        from kcagc.protocol.aggregator import aggregator_of_party, coordinator  # noqa: PLC0415 - only for an aggregator

        name = self.config.me
        if self.config.role == "coordinator":
            return coordinator(name, self.agreement, self.identity, randomness.secrets)
        return combine_halves(aggregator_of_party(name, self.agreement), self._party(randomness), name)

    def _party(self, randomness: SessionRandomness) -> Role[Any]:
        context, data = self._context(randomness), self.data
        if data is None:
            raise ParameterError(f"{self.config.me}: has no data")
        if self.model is None:
            return fit_party(context, data, seed=randomness.seed)
        if self.model.share is None or self.new_rows is None:
            raise ParameterError(f"{self.config.me}: the model has no share of this party")
        from kcagc.protocol.predict import predict_party  # noqa: PLC0415 - a fit does not need it

        return predict_party(context, data, self.model.share, self.new_rows)

    def _context(self, randomness: SessionRandomness) -> PartyContext:
        return PartyContext(self.config.me, self.agreement, self.identity, randomness.secrets, self.config.policy())

    def write(self, result: Any, disclosed: Disclosed) -> dict[str, Any]:
        """Write the results and return the summary; the session counts as a run of its proposal."""
        summary = write_results(self.files, self, result, disclosed)
        note_result(self.config, summary)
        return summary

    def share(self, result: Any) -> PartyModel | None:
        """Return this party's part of the model if the result has its rows; None at a coordinator."""
        if self.config.role == "coordinator" or getattr(result, "rows", None) is None:
            return None
        share: PartyModel | None = result.model if self.model is None else self.model.share
        return share

    def confidence(self, result: Any) -> FloatArray | None:
        """Compute how clearly each node belongs to its cluster in this party's own rows; None at a coordinator."""
        share = self.share(result)
        return None if share is None else confidence(result.rows, share.centers, share.clusters, result.labels)


def journal_path(config: Config, kind: Kind) -> Path:
    """Return the file of a journal."""
    return config.file(config.document.output.state) / f"{kind}.sqlite"


def result_files(config: Config, kind: Kind) -> ResultFiles:
    """Return the files of the results."""
    folder, labels = config.file(config.document.output.folder), config.document.output.labels
    if kind == "match":
        return ResultFiles.of(folder / "match", NODE_LIST)
    return ResultFiles.of(folder if kind == "fit" else folder / "prediction", labels)


def execute(
    run: RoleRun,
    *,
    new_session: bool,
    watcher: Watcher | None = None,
    on_status: Callable[[RoleStatus], None] | None = None,
    report: bool = False,
) -> dict[str, Any]:
    """Run a role to its end and return the summary; if the run has finished before, return its stored summary.

    With `report`, write the report page after all roles have closed their streams, so that no role waits for it.
    """
    results: list[Any] = []
    journal = open_journal(run, new_session)
    try:
        if journal.status == "finished":
            from kcagc.deploy.finished import finished_summary  # noqa: PLC0415 - a new run does not need it

            return finished_summary(run, journal, report=report)
        if journal.status == "failed":
            logger.info("the last run ended with: %s. This is a new session", journal.failure)
        try:
            run.check()
            run.files.check(run.config.me)
        except EngineError:  # the same command goes on once the machines are there
            raise
        except KcagcError as error:
            _announce_end(run, journal, error)
            raise
        keep_earlier_results(run.files, unfinished=journal.status == "new", list_stays=run.kind == "match")
        spec = role_spec(run, journal, results, watcher, on_status)
        try:
            asyncio.run(interrupts.until_stopped(_run_on_network(run, spec)))
        finally:
            # The ledger matters after a run that failed or was interrupted, too.
            with contextlib.suppress(Exception):
                write_ledger(run.files, journal.ledger())
        summary, receipts = stored_summary(journal), journal.fact(RECEIPTS)
    finally:
        journal.close()
        if (choice := vars(run).get("engine_choice")) is not None:  # one that nothing asked for holds no machines
            close_engine(choice.engine)
    from kcagc.deploy.finished import complete_folder  # noqa: PLC0415 - slow to import, and the labels are written

    return complete_folder(run, summary, receipts, results if report else [], watcher=watcher)


def _announce_end(run: RoleRun, journal: Journal, error: KcagcError) -> None:
    """Send the aggregator, if it can be reached, the reason why this party does not even begin."""
    if not run.config.listens:
        with contextlib.suppress(KcagcError):  # what makes a connection impossible is said already
            address = run.config.document.network.address
            announcing = announce_end(run.endpoint, run.credentials, address, public_reason(error))
            if asyncio.run(interrupts.until_stopped(announcing)):
                journal.record_connection(run.config.me, run.agreement.aggregator, "link/opening")


def open_journal(run: RoleRun, new_session: bool) -> Journal:
    """Open the journal; for a new session erase it first, or replace it if it is damaged."""
    journal = None
    try:
        journal = Journal(run.journal)
        if new_session:
            erase_journal(journal, run.files)
    except InvalidJournalError:
        if journal is not None:
            journal.close()
        if not new_session:
            raise
        remove(run.journal)
        journal = Journal(run.journal)
    if new_session:
        journal.leave_all()
    return journal


def erase_journal(journal: Journal, files: ResultFiles) -> None:
    """Erase a journal; the ledger of an unfinished run goes to its results first."""
    if journal.status != "finished" and (disclosed := journal.ledger()):
        keep_earlier_results(files, unfinished=False)
        write_ledger(files, disclosed)
    journal.erase()


async def _run_on_network(run: RoleRun, spec: RoleSpec) -> None:
    network = run.config.document.network
    if not run.config.listens:
        _log_choices(run)
        await unless_revoked(run.config, RoleClient(spec, network.address).run())
        return
    from kcagc.net.grpc_server import Server  # noqa: PLC0415 - only for an aggregator
    from kcagc.runtime.server import RoleServer  # noqa: PLC0415 - only for an aggregator

    role = RoleServer(spec)
    server = Server(network.listen, spec.credentials, role.serve, on_rejected=role.note_rejected)
    logger.info("listening on %s:%d", network.listen.rpartition(":")[0], server.port)
    _log_choices(run)
    await role.open()
    await server.start()
    try:
        await unless_revoked(run.config, role.run())
    except BaseException as error:
        role.announce_end(public_reason(error))
        raise
    finally:
        await server.stop(0.5)
        await role.stop()


def _log_choices(run: RoleRun) -> None:
    """Log the engine of this role, and the method, which all roles have chosen alike, before anything is sent."""
    if run.kind != "match" and run.engine_choice is not None:
        logger.info("engine: %s", run.engine_choice)
    if run.kind == "fit":
        logger.info("method: %s", run.config.method_choice())
        logger.info("psi: %s", run.config.psi_choice())


def role_spec(
    run: RoleRun,
    journal: Journal,
    results: list[Any],
    watcher: Watcher | None,
    on_status: Callable[[RoleStatus], None] | None,
) -> RoleSpec:
    """Return the role of a run with its journal; when it has finished, its result is added to `results`."""

    def finish(result: Any) -> dict[str, bytes]:
        if watcher is not None:
            watcher(run.config.me, Progress("writing the results"))
        summary = run.write(result, journal.ledger())
        results.append(result)
        return {"summary": json.dumps(summary).encode()}

    if watcher is not None and run.kind != "match" and run.engine_choice is not None:
        report_progress(run.engine_choice.engine, lambda *step: watcher(run.config.me, Progress(*step)))
    return RoleSpec(
        endpoint=run.endpoint,
        make_role=run.role,
        open_session=lambda: run.open_session(journal),
        finish=finish,
        credentials=run.credentials,
        limits=run.config.limits(),
        watcher=watcher,
        on_status=on_status,
    )


def stored_summary(journal: Journal) -> dict[str, Any]:
    """Return the summary of a finished run from its journal."""
    summary: dict[str, Any] = json.loads(journal.fact("summary") or b"{}")
    return summary
