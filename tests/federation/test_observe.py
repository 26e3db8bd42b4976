"""What an operator's tools read of a standing coordinator."""

import asyncio
import contextlib
import json
import re

from federation.folders import federation
from federation.test_service import ended, run_parties, serving
from kcagc.federation.observe import Metric, Observer

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')


async def fetched(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = b""
    with contextlib.suppress(ConnectionError):  # a refused request may not have been read to its end
        answer = await reader.read()
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return head.split("\r\n")[0], body


async def observed(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    broken = place / "federations" / "west" / "kcagc.toml"
    broken.parent.mkdir()
    broken.write_text("not a configuration")
    async with serving(place) as service:
        await run_parties(configs, service.port)
        await ended(service.federations["east"])
        observer = Observer(service, "127.0.0.1:0")
        async with await observer.start():
            requests = (b"GET /metrics HTTP/1.1", b"GET /healthz HTTP/1.0", b"GET /other HTTP/1.1", b"POST / HTTP/1.1")
            answers = [await fetched(observer.port, one + b"\r\nHost: here\r\n\r\n") for one in requests]
            bomb = b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 10_000
            return answers, await fetched(observer.port, bomb + b"\r\n")


def test_metrics_and_health_show_runs_and_problems(tmp_path):
    (metrics, health, other, posted), bomb = asyncio.run(observed(tmp_path, tmp_path / "standing"))
    assert metrics[0] == "HTTP/1.1 200 OK"
    lines = metrics[1].splitlines()
    assert 'kcagc_runs_ended_total{federation="east",state="finished"} 1' in lines
    assert "kcagc_federations 1" in lines
    assert "kcagc_federation_problems 1" in lines
    assert all(SAMPLE.fullmatch(line) for line in lines if not line.startswith("#"))
    found = json.loads(health[1])
    assert (found["status"], found["federations"], list(found["problems"])) == ("degraded", ["east"], ["west"])
    assert other[0] == "HTTP/1.1 404 Not Found"
    assert posted[0] == "HTTP/1.1 405 Method Not Allowed"
    assert bomb == ("", "")  # the connection ends without an answer


def test_labels_of_a_metric_are_escaped():
    metric = Metric("m", "gauge", "A metric.", (({"name": 'a"b\\c\nd'}, 2.0),))
    assert list(metric.lines())[-1] == 'm{name="a\\"b\\\\c\\nd"} 2'
