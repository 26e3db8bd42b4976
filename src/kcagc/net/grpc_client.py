"""A party's end: opens one stream to the aggregator over mutual TLS."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc import aio

from kcagc.errors import PeerError
from kcagc.net.frames import AnyFrame, Frame, decode_frame, encode_frame
from kcagc.net.grpc_options import COMMON, PATH, REASON_KEY
from kcagc.net.stream import ConnectionLost, Reason, Rejected
from kcagc.net.tls import Credentials


class ClientWire:
    """The one stream of a party."""

    def __init__(self, channel: Any, call: Any, peer: str) -> None:
        self._channel, self._call, self._peer = channel, call, peer

    @classmethod
    async def connect(cls, address: str, server_name: str, credentials: Credentials, peer: str) -> ClientWire:
        """Open a stream; whether anybody is there shows with the first frame."""
        secure = grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate)
        # The certificate must be the aggregator's, whatever the machine it runs on is called.
        options = [
            *COMMON,
            ("grpc.ssl_target_name_override", server_name),
            ("grpc.enable_retries", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        channel = aio.secure_channel(address, secure, options=options)
        return cls(channel, channel.stream_stream(PATH)(), peer)

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        try:
            await self._call.write(encode_frame(frame))
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            await self._explain(error)

    async def receive(self) -> AnyFrame:
        """Give the next frame."""
        try:
            payload = await self._call.read()
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            await self._explain(error)
        if payload is aio.EOF:
            await self._explain(None)
        return decode_frame(payload, self._peer)

    async def close(self) -> None:
        """Let go of the connection."""
        self._call.cancel()
        await self._channel.close()

    async def _explain(self, error: Exception | None) -> None:
        """Raise what the end of the stream means."""
        code, words = await self._call.code(), str(await self._call.details() or "")
        reason = dict(await self._call.trailing_metadata() or ()).get(REASON_KEY)
        if reason is not None:
            try:
                raise Rejected(Reason(reason), words)
            except ValueError:
                raise ConnectionLost(words) from error
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise PeerError(f"a frame is longer than allowed: {words}", peer=self._peer) from error
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise Rejected(Reason.AGREEMENT, f"what listens there is not an aggregator of kcagc ({words})") from error
        raise ConnectionLost(words or str(code)) from error
