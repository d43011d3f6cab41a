"""One line for each request, with the status that its client got (`--access-log`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import RunningGateway
from tests.support.gateway.scripted_upstream import ScriptedUpstream
from tests.support.gateway.upstream_answers import (
    always,
    chat_chunk,
    chunk,
    chunked_head,
    error_body,
    event,
    hang,
    play,
    polite,
    raw,
)
from tests.support.waiting import until

PATH = "/v1/chat/completions"
EVENTS = ("request finished", "request refused")


@pytest.fixture
def logged(
    upstreams, gateways
) -> Iterator[tuple[ScriptedUpstream, RunningGateway, list[dict[str, Any]]]]:
    (server,) = upstreams(polite)
    with capture_logs() as lines:
        gateway = gateways(
            [server], server={"admin_key": "admin", "access_log": True}, max_waiting=1
        )
        yield server, gateway, lines  # type: ignore[misc]


def statuses(lines: list[dict[str, Any]]) -> list[int]:
    return [line["status"] for line in lines if line["event"] in EVENTS]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (polite, 200),
        (raw(b""), 502),
        (always(503), 503),
        (always(400, error_body("no")), 400),
        (always(422, error_body("no")), 422),
        (always(404, error_body("no")), 404),
        (always(429), 429),
    ],
)
def test_of_what_was_sent_to_an_instance(logged, answer: Any, status: int) -> None:
    server, gateway, lines = logged
    server.answer = answer
    assert gateway.chat().status_code == status
    gateway.wait_until_idle()
    (line,) = [line for line in lines if line["event"] in EVENTS]
    assert (line["status"], line["path"]) == (status, PATH)
    assert line["tries"] >= 1
    assert line["request_id"]


def test_of_what_never_was(logged) -> None:
    server, gateway, lines = logged
    post = gateway.http.post
    assert gateway.chat(model="nobody").status_code == 404
    assert gateway.chat(messages=[]).status_code == 400
    json_said = {"content-type": "application/json"}
    assert post(PATH, content=b"{", headers=json_said).status_code == 400
    assert post(PATH, content=b"{}").status_code == 415
    gateway.call(lambda: gateway.gateway.pool.retire(gateway.gateway.pool.instances[0]))
    assert gateway.chat().status_code == 503
    gateway.wait_until_idle()
    assert statuses(lines) == [404, 400, 400, 415, 503]
    assert not server.exchanges


def test_of_who_left_and_who_was_too_many(logged) -> None:
    server, gateway, lines = logged
    server.answer = hang
    with gateway.sent():
        server.wait_for(1)
        assert gateway.chat().status_code == 429
    until(lambda: len(statuses(lines)) == 2)
    server.answer = play(chunked_head() + chunk(event(chat_chunk("a"))), Gate())
    with gateway.stream() as answer:
        assert next(answer.iter_bytes())
    until(lambda: len(statuses(lines)) == 3)
    assert statuses(lines) == [429, 499, 499]
    gateway.wait_until_idle()
