"""The role that connects: it ends when its run has ended."""

import asyncio
from types import SimpleNamespace

import pytest

from kcagc.runtime import client


@pytest.mark.timeout(30)
def test_a_finished_party_ends_although_a_cancellation_is_lost(monkeypatch):
    lost = []

    async def start(*_):
        async def run(*, may_restart):
            return False

        async def close():
            await asyncio.sleep(0)

        return SimpleNamespace(run=run, close=close, all_closed=False, role=SimpleNamespace(failed=False))

    async def keep_connected(*_):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as error:
            lost.append(error)
        await asyncio.sleep(3600)

    monkeypatch.setattr(client, "SessionRun", SimpleNamespace(start=start))
    monkeypatch.setattr(client.RoleClient, "_keep_connected", keep_connected)
    monkeypatch.setattr(client, "_CANCEL_AGAIN", 0.01)
    spec = SimpleNamespace(aggregator="coordinator", endpoint=SimpleNamespace(tls_names={"coordinator": "name"}))
    asyncio.run(client.RoleClient(spec, "localhost:1").run())
    assert len(lost) == 1
