"""What every party does in every session: open it, compare data, exchange encrypted messages, and check the result."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kcagc._types import IntArray
from kcagc.disclosure import Policy
from kcagc.errors import AgreementError, DataError, KcagcError, PeerError
from kcagc.protocol.agreement import Agreement, Session, graph_digest, ids_digest, ids_kind, open_session, own_hello
from kcagc.protocol.effects import Channel, CommitMask, Progress
from kcagc.protocol.label_policy import LabelMeasurement, check_labels
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import (
    Confirmation,
    EncryptedMessages,
    Hellos,
    Message,
    Receipt,
    RelayedMessages,
    RunStage,
    Step,
    decode_content,
    encode,
    expect,
)
from kcagc.protocol.plan import Merge, check_enough_cells, layers, risks
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg import masks
from kcagc.secagg.keys import Identity, Secrets, decrypt, derive_key, digest, encrypt, framed
from kcagc.text import printable

C = TypeVar("C", bound=Message)
_MAX_TOTAL = 2.0**30  # of one party; nodes may lie farther from their centre than any virtual node that was compared


@dataclass(frozen=True, eq=False)
class PartyContext:
    """What a party brings to a session: its name, the agreement, its keys, and what its operator accepts."""

    name: str
    agreement: Agreement
    identity: Identity
    secrets: Secrets
    policy: Policy

    def check(self) -> None:
        """Refuse, before anything is sent, an impossible session or one that the operator did not accept."""
        self.agreement.check()
        self.agreement.check_identity(self.name, self.identity)
        if self.agreement.participant(self.name).role == "party":  # a coordinator has no data to disclose
            self.policy.check(risks(self.agreement))
        check_enough_cells(self.agreement)


class Party:
    """A party during a session; `session` exists once all hellos are checked."""

    session: Session

    def __init__(self, context: PartyContext) -> None:
        context.check()
        self.name, self.agreement = context.name, context.agreement
        self.others = tuple(party for party in self.agreement.parties if party != self.name)
        merges = [merge for layer in layers(self.agreement) for merge in layer]
        self.merges = [merge for merge in merges if self.name in merge.group.members]  # from the leaves to the root
        self.channel = Channel(self.name)
        self._context = context
        self._group_keys: dict[str, bytes] = {}
        self.n_nodes = 0  # known once the confirmations are sent
        self._data_digest = b""  # nodes and graph: part of every encryption after the confirmations

    async def open(self) -> None:
        """Send a hello, and check the hellos of all participants."""
        hello = own_hello(self.name, self.agreement, self._context.identity, self._context.secrets)
        await self.channel.send(self.agreement.aggregator, hello, RunStage(Step.HELLO))
        await Progress("waiting for all parties")
        hellos = await self.channel.receive(self.agreement.aggregator, Hellos)
        self.session = open_session(self.name, self.agreement, self._context.secrets, hellos.hellos)

    async def send_confirmations(
        self,
        data: PartyData,
        *,
        subject: bytes = b"",
        seed: int | None = None,
        starts: bytes = b"",
        scale: int = 0,
        n_components: int = 0,
    ) -> dict[str, Confirmation]:
        """Send each other party what its data are compared with; return the sent confirmations.

        `subject` is anything else that must be the same for all parties: the nodes to predict.
        """
        self.n_nodes = data.graph.n_nodes
        groups = [merge.group for merge in self.merges if not merge.group.aggregator_is_member]
        led = [group for group in groups if group.members[0] == self.name]
        for group in led:
            secret = self._context.secrets.shuffling
            self._group_keys[group.name] = derive_key(secret, self.session.id, "order of group", group.name)
        shared = self.agreement.parameters.graph == "shared"
        ids, graph = ids_digest(data.graph), graph_digest(data.graph) if shared else b""
        sent = {
            other: Confirmation(
                n_nodes=data.graph.n_nodes,
                n_edges=(data.graph.n_edges if shared else 0).to_bytes(8, "big"),
                ids_kind=ids_kind(data.graph),
                ids=pair.fingerprint("ids", ids),
                graph=pair.fingerprint("graph", graph),
                group_keys={group.name: self._group_keys[group.name] for group in led if other in group.members},
                subject=pair.fingerprint("subject", subject),
                # Fixed length: the length of a ciphertext must not depend on its content.
                seed=b"" if seed is None else seed.to_bytes(8, "big"),
                starts=starts,
                scale=scale,
                n_components=n_components,
            )
            for other, pair in self.session.pairs.items()
        }
        kind = "confirmation.starts" if starts else "confirmation.components" if n_components else "confirmation"
        await self.send_encrypted(RunStage(Step.CONFIRMATION), dict(sent), kind)
        # From here on only a party with the same nodes and graph can decrypt. So no party needs to wait for the
        # confirmations of the others before it sends anything about its nodes.
        self._data_digest = digest("about", data.graph.n_nodes, ids_kind(data.graph), ids, graph, subject)
        return sent

    async def receive_confirmations(self, sent: dict[str, Confirmation]) -> dict[str, Confirmation]:
        """Receive the confirmations of the others, compare them with those sent, and return them."""
        received = await self.receive_encrypted(RunStage(Step.CONFIRMATION), self.others, Confirmation)
        self._compare_data(sent, received)
        for other, theirs in received.items():
            self._group_keys |= {
                merge.group.name: theirs.group_keys[merge.group.name]
                for merge in self.merges
                if merge.group.members[0] == other and merge.group.name in theirs.group_keys
            }
        return received

    def _compare_data(self, sent: dict[str, Confirmation], received: dict[str, Confirmation]) -> None:
        """End the run if data differ; the error names the other party, or this one if most others differ from it."""
        found = {other: _first_difference(sent[other], theirs) for other, theirs in received.items()}
        different = {other: field for other, field in found.items() if field}
        for other, field in different.items():
            mine, theirs = _shown(sent[other], field), _shown(received[other], field)
            values = f": {self.name} has {mine}, {other} has {theirs}" if mine != theirs else f": both have {mine}"
            what, hint = _COMPARED[field]
            message = f"{self.name} and {other} do not have the same {what}"
            culprit = other if 2 * len(different) <= len(received) else self.name
            raise AgreementError(f"{message}{values if mine else ''}{hint}", peer=culprit).with_public_message(message)

    async def send_encrypted(self, stage: RunStage, contents: dict[str, Message], kind: str) -> None:
        """Send encrypted messages through the aggregator; `kind` is the kind of their content in the ledger."""
        if not contents:
            return
        ciphertexts = [(to, await self._encrypted(to, stage, content, kind)) for to, content in contents.items()]
        message = EncryptedMessages(stage, tuple(ciphertexts))
        await self.channel.send(self.agreement.aggregator, message, stage, shape=(len(ciphertexts),))

    async def receive_encrypted(self, stage: RunStage, senders: tuple[str, ...], kind: type[C]) -> dict[str, C]:
        """Receive and decrypt one message from each of `senders`."""
        if not senders:
            return {}
        relayed = await self.channel.receive(self.agreement.aggregator, RelayedMessages)
        if relayed.stage != stage or tuple(sender for sender, _ in relayed.ciphertexts) != senders:
            wanted = f"those of {stage} from {', '.join(senders)}"
            raise PeerError(f"relayed other encrypted messages than {wanted}", peer=self.agreement.aggregator)
        contents = {}
        for sender, ciphertext in relayed.ciphertexts:
            label = self._encryption_label(stage, sender, self.name)
            content = decrypt(self.session.pairs[sender], label, ciphertext)
            contents[sender] = expect(decode_content(content, sender), kind, sender)
        return contents

    async def _encrypted(self, to: str, stage: RunStage, content: Message, kind: str) -> bytes:
        label, plain = self._encryption_label(stage, self.name, to), encode(content)
        await CommitMask(framed(self.session.id, label), hashlib.sha256(plain).digest())
        await self.channel.record(to, f"encrypted/{kind}", stage, size=len(plain))
        return encrypt(self.session.pairs[to], label, plain)

    def _encryption_label(self, stage: RunStage, sender: str, receiver: str) -> bytes:
        data = b"" if stage.step is Step.CONFIRMATION else self._data_digest
        return framed("box", str(stage), sender, receiver, data)

    def check_labels(self, found: LabelMeasurement | None, whole: bool, columns: Sequence[str]) -> str:
        """Return the kind of disclosure of this party's local labels, or refuse to send them."""
        if found is None:
            raise KcagcError(f"{self.name}: the local labels were not measured")
        return check_labels(self.name, found, whole, columns, self._context.policy)

    def secure_sums(self, merge: Merge, transcript: bytes) -> SecureSums:
        """Begin the secure sums of a group; `transcript` covers all that its members must have in common by now."""
        merge.group.check(self._context.policy.accept)
        key = b""
        if not merge.group.aggregator_is_member:
            key = self._group_keys.get(merge.group.name, b"")
            if len(key) != 32:
                message = f"did not send the key that hides the order of group {merge.group.name}"
                raise PeerError(message, peer=merge.group.members[0])
        limits = masks.MAX_DISTANCE, masks.FRACTION_BITS
        if self.agreement.parameters.scaling == "US":  # rows of other lengths
            limits = masks.MAX_LONG_DISTANCE, masks.LONG_FRACTION_BITS
        return SecureSums(self.channel, self.session, merge.group, key, *limits, digest(transcript, key))

    @property
    def secret(self) -> bytes:
        """A secret of this party and session, from which it derives what only it may know."""
        return self._context.secrets.shuffling

    async def confirm_result(
        self, transcript: bytes, labels: IntArray, kind: str, words: IntArray | None = None
    ) -> IntArray:
        """Check that all parties received the same answers and have the same result, then record the result.

        The receipts also carry each party's part of some totals under masks that cancel in the sum over all parties:
        `words`, integers or shares. Return these sums.
        """
        result = digest("receipt", transcript, labels.astype("<i8").tobytes())
        covered = np.zeros(0, dtype=np.uint64)
        if words is not None:
            label = framed(str(RunStage(Step.RECEIPT)), "totals")
            await CommitMask(framed(self.session.id, label), hashlib.sha256(words.data).digest())
            plain = words.view(np.uint64)
            covered = masks.mask(plain, self.session.pairs.values(), self.agreement.parties, label, result)
        sent_as = "receipt.sweep" if kind == "sweep" else "receipt"
        receipt = Receipt(result, covered.astype("<u8", copy=False).tobytes())
        await self.send_encrypted(RunStage(Step.RECEIPT), dict.fromkeys(self.others, receipt), sent_as)
        received = await self.receive_encrypted(RunStage(Step.RECEIPT), self.others, Receipt)
        different = [other for other, theirs in received.items() if theirs.digest != result]
        if different:
            message = f"sent different assignments to {self.name} and {', '.join(different)}"
            raise PeerError(message, peer=self.agreement.aggregator)
        for other, theirs in received.items():
            if len(theirs.totals) != len(receipt.totals):
                raise PeerError("sent a receipt whose sums have the wrong length", peer=other)
            covered = covered + np.frombuffer(theirs.totals, dtype="<u8")
        found = np.zeros(0, dtype=np.int64)
        if words is not None:
            found = masks.open_sum(covered, len(self.agreement.parties))
        await self.channel.record(self.name, f"output/{kind}", RunStage(Step.OUTPUT), (len(labels),))
        return found


def total_words(name: str, value: float) -> IntArray:
    """Return this party's part of a total, such as the final cost, as an integer."""
    if not abs(value) <= _MAX_TOTAL:
        message = "the final cost of this party is too large for the protocol; use smaller features"
        raise DataError(message, party=name).with_public_message("aborted")
    return np.array([round(math.ldexp(value, masks.FRACTION_BITS))], dtype=np.int64)


def total_of(words: IntArray) -> float:
    """Return the total that the parts of all parties add up to."""
    return math.ldexp(float(words[0]), -masks.FRACTION_BITS)


_COMPARED = {  # fields of a confirmation: what they compare, and a hint
    "n_nodes": (
        "number of nodes",
        " (every party needs a row for the same nodes: agree on a list of nodes; kcagc match)",
    ),
    "ids_kind": ("kind of node ids", " (kcagc check --config F shows the ids of a party)"),
    "ids": (
        "node ids",
        " (other ids, or the same in another order: agree on a list of nodes; kcagc match finds the common ids)",
    ),
    "graph": (
        "graph",
        ' (every party must hold the same edges with the same weights, unless graph="own"; '
        "kcagc check --config F counts the nodes and edges of a party)",
    ),
    "subject": ("nodes to predict", ""),
}


def _shown(sent: Confirmation, field: str) -> str:
    """Return what a reader may compare; digests mean nothing to a reader."""
    if field == "graph":
        return f"{int.from_bytes(sent.n_edges, 'big'):,} edges"
    if field == "ids":
        return f"{sent.n_nodes:,} ids, which are {printable(sent.ids_kind)}"
    value = getattr(sent, field)
    return f"{value:,}" if isinstance(value, int) else printable(value) if isinstance(value, str) else ""


def _first_difference(mine: Confirmation, theirs: Confirmation) -> str:
    return next((field for field in _COMPARED if getattr(mine, field) != getattr(theirs, field)), "")
