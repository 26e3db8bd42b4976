"""The last word of a party whose run has ended, to an aggregator that may not have heard of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kcagc.errors import KcagcError
from kcagc.net.grpc_client import ClientWire
from kcagc.net.stream import ConnectionLost, Reason, Rejected
from kcagc.net.tls import Credentials
from kcagc.runtime.peer_queue import PeerQueue
from kcagc.runtime.stream_handshake import Card, Place, challenged, introduce


async def say_farewell(
    card: Card,
    credentials: Credentials,
    address: str,
    place: Place,
    counts: tuple[int, int],
    seconds: float,
    record: Callable[[], None],
) -> bool:
    """Tell the aggregator that everything has arrived here; give whether it knows, or no longer needs to.

    `counts` are how many messages have come from it and gone to it; `record` notes that something is said.
    """
    aggregator = card.agreement.aggregator
    letters = PeerQueue(aggregator)
    letters.arrived = letters.safe = counts[0]
    letters.sent = letters.acknowledged = counts[1]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wire = await ClientWire.connect(address, card.tls_names[aggregator], credentials, aggregator)
        try:
            async with asyncio.timeout(seconds):
                challenge = await challenged(wire, card, aggregator)
                record()
                await introduce(wire, card, challenge, place, letters, seconds)
            return True
        except Rejected as refusal:
            if refusal.reason is not Reason.LATER:  # it is past that session
                return True
        except (ConnectionLost, TimeoutError):
            pass
        except KcagcError:
            return True
        finally:
            await wire.close()
        await asyncio.sleep(0.2)
    return False
