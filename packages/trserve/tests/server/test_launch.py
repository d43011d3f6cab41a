"""`trserve launch` as a process: ready, drained, stopped at once, interrupted while loading."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.support.trserve.server_process import running_server, server_process

ENDLESS = ("--set", "models[0].step_ms=[400]", "--set", "models[1].step_ms=[400]")
NO_STOP = ("--set", "models[0].eos_rate=0", "--set", "models[1].eos_rate=0")


@contextmanager
def stream(url: str, max_tokens: int) -> Iterator[Iterator[dict[str, Any]]]:
    body = {
        "model": "profile-demo",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": max_tokens,
        "stream": True,
        "tokenrouter": {"model_per_token": True},
    }
    with (
        httpx.Client(timeout=60) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json=body) as response,
    ):
        assert response.status_code == 200
        data = (line.removeprefix("data: ") for line in response.iter_lines() if line)
        yield (json.loads(item) for item in data if item != "[DONE]")


def accepts(url: str) -> bool:
    """False both before and after the listening socket is closed."""
    try:
        return httpx.get(f"{url}/health").status_code != 503
    except httpx.ConnectError:
        return False


def test_ready_and_stopped(tmp_path):
    with running_server(tmp_path, "--json-logs", "--served-name", "demo") as (server, url):
        health = httpx.get(f"{url}/health").json()
        assert health["status"] == "ok"
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "demo"
        server.signal(signal.SIGTERM)
        status, output, lines = server.finish()
    assert (status, output) == (0, "")
    assert not (tmp_path / "ready.json").exists()
    logs = [json.loads(line) for line in lines]
    ready = next(log for log in logs if log["event"] == "ready")
    assert ready["url"] == url
    assert '"demo"' in ready["example"]
    assert not any("GET /health" in line for line in lines)


def test_the_log_for_people(tmp_path):
    with running_server(tmp_path, "--access-log", "--api-key", "k") as (server, url):
        assert httpx.get(f"{url}/v1/models").status_code == 401
        example = server.wait_for("curl -N")
        assert url in example
        assert "Bearer $TRSERVE_API_KEY" in example
        server.wait_for("GET /v1/models")
        server.signal()
        status, _, lines = server.finish()
    assert status == 0
    text = "".join(lines)
    for expected in ("preset profile-demo", "bernoulli", "model 0 small", "threshold 1", "loaded"):
        assert expected in text
    assert "\x1b" not in text


def test_the_first_signal_drains(tmp_path):
    with running_server(tmp_path, *NO_STOP) as (server, url), stream(url, 150) as chunks:
        first = next(chunks)
        server.signal()
        assert "running=1" in server.wait_for("stopping")
        assert not accepts(url)
        rest = [first, *chunks]
        status, _, _ = server.finish()
    choices = [choice for chunk in rest for choice in chunk["choices"]]
    models = [m for c in choices for m in (c.get("tokenrouter") or {}).get("models", [])]
    assert len(models) == 150
    assert choices[-1]["finish_reason"] == "length"
    assert status == 0


def test_the_second_signal_stops_at_once(tmp_path):
    with running_server(tmp_path, *NO_STOP, *ENDLESS) as (server, url), stream(url, 500) as chunks:
        next(chunks)
        server.signal()
        server.wait_for("stopping")
        server.signal()
        *_, last = chunks
        status, _, lines = server.finish()
    assert last["error"]["code"] == "shutdown"
    assert status == 130
    assert "Traceback" not in "".join(lines)


def test_draining_has_an_end(tmp_path):
    arguments = (*NO_STOP, *ENDLESS, "--drain-timeout", "0.05")
    with running_server(tmp_path, *arguments) as (server, url), stream(url, 500) as chunks:
        next(chunks)
        server.signal()
        *_, last = chunks
        status, _, lines = server.finish()
    assert last["error"]["code"] == "shutdown"
    assert status == 0
    assert "drain timeout" in "".join(lines)


LOADING = """
import sys, threading, trserve.server.open_served_group
from trserve.cli.main import main

def slow(deployment, report):
    report("loading weights")
    while {reports}:
        report("still at it")
        threading.Event().wait(0.01)
    threading.Event().wait()

trserve.server.open_served_group.open_served_group = slow
sys.exit(main(["launch", "--preset", "profile-demo", "--port", "0"]))
"""


@pytest.mark.parametrize("reports", [True, False], ids=["in Python", "inside a library"])
def test_loading_can_be_interrupted(reports):
    with server_process(["-c", LOADING.format(reports=reports)]) as server:
        server.wait_for("loading weights")
        server.signal()
        server.wait_for("stopping")
        status, _, lines = server.finish()
    assert status == 130
    assert "Traceback" not in "".join(lines)


STUCK = """
import sys, threading, trserve.server.launcher
from functools import partial
from trsched.group import Group
from trserve.cli.main import main
from trserve.server.group.group_shutdown import GroupShutdown

trserve.server.launcher.GroupShutdown = partial(GroupShutdown, patience_s=0.1)
Group.close = lambda group: threading.Event().wait()
sys.exit(main(["launch", "--preset", "profile-demo", "--port", "0"]))
"""


def test_an_engine_that_does_not_stop():
    with server_process(["-c", STUCK]) as server:
        server.wait_for("ready")
        server.signal()
        server.wait_for("do not stop")
        status, _, _ = server.finish()
    assert status == 0


def test_a_variable_that_sets_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("TRSERVE_PROT", "9")
    with server_process(["-c", STUCK]) as server:
        assert "TRSERVE_PORT" in server.wait_for("TRSERVE_PROT")


def test_a_port_taken_meanwhile(tmp_path):
    with running_server(tmp_path) as (_, url):
        port = re.sub(r".*:", "", url)
        arguments = ["-m", "trserve", "launch", "--preset", "profile-demo", "--port", port]
        with server_process(arguments) as second:
            status, _, lines = second.finish()
    assert status == 2
    assert len(lines) == 1
    assert lines[0].startswith(f"trserve: server.port: {port} is in use on 127.0.0.1")
