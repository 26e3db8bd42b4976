"""What every party does in every run: show itself, check the others, exchange boxes, and make sure all end alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

from kcagc._types import IntArray
from kcagc.disclosure import Entry, Policy
from kcagc.errors import AgreementError, PeerError
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.channel import Channel
from kcagc.protocol.effects import CommitMask, Disclose, perform, progress
from kcagc.protocol.handshake import Session, begin, compare_data, graph_digest, ids_digest, ids_kind, own_hello
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import (
    Confirmation,
    EncryptedMessages,
    Hellos,
    Message,
    Receipt,
    RelayedMessages,
    decode_content,
    encode,
    expect,
)
from kcagc.protocol.plan import Merge, check_enough_cells, layers, risks
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg.keys import Identity, Secrets, decrypt, derive_key, digest, encrypt, framed
from kcagc.text import printable

C = TypeVar("C", bound=Message)


@dataclass(frozen=True, eq=False)
class PartyContext:
    """What a party brings to a session: its name, what it agrees to, its keys, and what its operator accepts."""

    name: str
    agreement: Agreement
    identity: Identity
    secrets: Secrets
    policy: Policy

    def check(self) -> None:
        """Refuse, before anything is sent, a session that makes no sense or that the operator did not accept."""
        self.agreement.check()
        if self.agreement.participant(self.name).identity != self.identity.public:
            raise AgreementError(f"{self.name}: the roster has another identity key for {self.name} than its own")
        self.policy.check(risks(self.agreement))
        check_enough_cells(self.agreement)

    @property
    def merges(self) -> list[Merge]:
        """The merges that this party takes part in, from the leaves to the root."""
        return [merge for layer in layers(self.agreement) for merge in layer if self.name in merge.group.members]

    @property
    def others(self) -> tuple[str, ...]:
        """The other data parties."""
        return tuple(party for party in self.agreement.parties if party != self.name)


class Party:
    """A party during a session."""

    def __init__(self, membership: PartyContext) -> None:
        membership.check()
        self.name, self.agreement, self.others = membership.name, membership.agreement, membership.others
        self.merges = membership.merges
        self.channel = Channel(self.name)
        self._membership = membership
        self._session: Session | None = None
        self._group_keys: dict[str, bytes] = {}
        self._about = b""  # which nodes and graph: what a box is sealed with, once that is known

    @property
    def session(self) -> Session:
        """The session, once all hellos are checked."""
        if self._session is None:
            raise AgreementError(f"{self.name}: no session has begun")
        return self._session

    async def begin(self) -> None:
        """Show inputs, nonce and key, and check everybody else's."""
        own = self._membership
        hello = own_hello(self.name, self.agreement, own.identity, own.secrets)
        await self.channel.send(self.agreement.aggregator, hello, stage="hello")
        await progress("waiting for all parties")
        hellos = await self.channel.receive(self.agreement.aggregator, Hellos)
        self._session = begin(self.name, self.agreement, own.secrets, hellos.hellos)

    async def confirm(
        self, data: PartyData, *, subject: bytes = b"", seed: int | None = None, starts: bytes = b""
    ) -> dict[str, Confirmation]:
        """Compare data with each other party, in boxes; give what they said."""
        return await self.hear_data(await self.tell_data(data, subject=subject, seed=seed, starts=starts))

    async def tell_data(
        self, data: PartyData, *, subject: bytes = b"", seed: int | None = None, starts: bytes = b""
    ) -> dict[str, Confirmation]:
        """Tell each other party what its data are compared with; give what was told.

        `subject` is whatever else must be the same for all: the nodes to predict.
        """
        led = [
            merge.group
            for merge in self.merges
            if merge.group.members[0] == self.name and not merge.group.aggregator_is_member
        ]
        for group in led:
            secret = self._membership.secrets.shuffling
            self._group_keys[group.name] = derive_key(secret, self.session.id, "order of group", group.name)
        shared = self.agreement.parameters.graph == "shared"
        ids, graph = ids_digest(data.graph), graph_digest(data.graph) if shared else b""
        own = {
            other: Confirmation(
                n_nodes=data.graph.n_nodes,
                ids_kind=ids_kind(data.graph),
                ids=self.session.pairs[other].fingerprint("ids", ids),
                graph=self.session.pairs[other].fingerprint("graph", graph),
                group_keys={group.name: self._group_keys[group.name] for group in led if other in group.members},
                subject=self.session.pairs[other].fingerprint("subject", subject),
                # Of fixed length: how long a box is must not depend on what is in it.
                seed=b"" if seed is None else seed.to_bytes(8, "big"),
                starts=starts,
            )
            for other in self.others
        }
        await self.tell("confirmation", dict(own), line="confirmation.starts" if starts else "confirmation")
        # From here on a box opens only for who has the same nodes and graph, so that nobody need wait for the others'
        # confirmations before saying anything about them.
        self._about = digest("about", data.graph.n_nodes, ids_kind(data.graph), ids, graph, subject)
        return own

    async def hear_data(self, own: dict[str, Confirmation]) -> dict[str, Confirmation]:
        """Hear what the others told, compare it with one's own, and give it."""
        told = await self.hear("confirmation", self.others, Confirmation)
        self._compare(own, told)
        for other, theirs in told.items():
            self._group_keys |= {
                merge.group.name: theirs.group_keys[merge.group.name]
                for merge in self.merges
                if merge.group.members[0] == other and merge.group.name in theirs.group_keys
            }
        return told

    def _compare(self, own: dict[str, Confirmation], told: dict[str, Confirmation]) -> None:
        """End the run if data differ; where most others have the same data, the error names the odd one."""
        differences = {}
        for other, theirs in told.items():
            try:
                compare_data(self.name, other, "number of nodes", own[other].n_nodes, theirs.n_nodes)
                compare_data(self.name, other, "kind of node ids", own[other].ids_kind, printable(theirs.ids_kind))
                compare_data(self.name, other, "node ids", own[other].ids, theirs.ids)
                compare_data(self.name, other, "graph", own[other].graph, theirs.graph)
                compare_data(self.name, other, "nodes to predict", own[other].subject, theirs.subject)
            except AgreementError as error:
                differences[other] = error
        for other, difference in differences.items():
            difference.peer = other if 2 * len(differences) <= len(told) else self.name
            raise difference

    async def tell(self, stage: str, contents: dict[str, Message], *, line: str) -> None:
        """Send boxes through the aggregator; `line` is their line in the ledger."""
        if not contents:
            return
        boxes = [(to, await self._sealed(to, stage, content, line)) for to, content in contents.items()]
        await self.channel.send(
            self.agreement.aggregator, EncryptedMessages(stage, tuple(boxes)), stage=stage, shape=(len(boxes),)
        )

    async def hear(self, stage: str, senders: tuple[str, ...], kind: type[C]) -> dict[str, C]:
        """Open the boxes that come from `senders`."""
        if not senders:
            return {}
        delivery = await self.channel.receive(self.agreement.aggregator, RelayedMessages)
        if delivery.stage != stage or tuple(sender for sender, _ in delivery.boxes) != senders:
            raise PeerError(
                f"delivered other boxes than those of {stage} from {', '.join(senders)}", peer=self.agreement.aggregator
            )
        opened = {}
        for sender, box in delivery.boxes:
            about = b"" if stage == "confirmation" else self._about
            content = decrypt(self.session.pairs[sender], _box_label(stage, sender, self.name, about), box)
            opened[sender] = expect(decode_content(content, sender), kind, sender)
        return opened

    async def _sealed(self, to: str, stage: str, content: Message, line: str) -> bytes:
        label, plain = _box_label(stage, self.name, to, self._about), encode(content)
        await perform(CommitMask(framed(self.session.id, label), hashlib.sha256(plain).digest()))
        await perform(Disclose(Entry(self.name, to, f"inside/{line}", stage, (), len(plain))))
        return encrypt(self.session.pairs[to], label, plain)

    def sums_of(self, merge: Merge, transcript: bytes) -> SecureSums:
        """Begin the sums of a group; `transcript` stands for all that its members must have in common by now."""
        merge.group.check(self._membership.policy.accept)
        key = b""
        if not merge.group.aggregator_is_member:
            leader = merge.group.members[0]
            if len(self._group_keys.get(merge.group.name, b"")) != 32:
                raise PeerError(f"did not send the key that hides the order of group {merge.group.name}", peer=leader)
            key = self._group_keys[merge.group.name]
        return SecureSums(self.channel, self.session, merge.group, key, digest(transcript, key))

    async def compare_results(self, transcript: bytes, labels: IntArray, output: str) -> None:
        """Make sure that every party was told the same to the end, then put the result out."""
        receipt = digest("receipt", transcript, labels.astype("<i8").tobytes())
        own = {other: Receipt(receipt) for other in self.others}
        await self.tell("receipt", dict(own), line="receipt")
        told = await self.hear("receipt", self.others, Receipt)
        different = [other for other, theirs in told.items() if theirs.digest != receipt]
        if different:
            raise PeerError(
                f"told {self.name} and {', '.join(different)} different assignments", peer=self.agreement.aggregator
            )
        await self.channel.put_out(output, (len(labels),))


def _box_label(stage: str, sender: str, receiver: str, about: bytes) -> bytes:
    return framed("box", stage, sender, receiver, about)
