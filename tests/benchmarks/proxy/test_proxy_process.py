"""Proxies as processes: started, refused, accounted for, and gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.proxy import check, peer_environments
from benchmarks.proxy.cpu_time import cpu_seconds, family, resident_bytes
from benchmarks.proxy.proxy_process import Proxy, StartError, free_port, running
from benchmarks.proxy.upstreams import mock_upstreams

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = sys.argv[2].encode()
        self.send_response(int(sys.argv[3]))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
CHANGED = '{"choices":[{"message":{"content":"something else"}}]}'


def answering(port: int, body: str, status: int = 200) -> list[str]:
    return [sys.executable, "-c", SERVER, str(port), body, str(status)]


def test_a_process_is_there_once_it_answers_and_gone_after_the_block() -> None:
    port = free_port()
    with running(answering(port, "{}"), port, "m") as pid:
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_ends_says_its_last_words() -> None:
    command = [sys.executable, "-c", "print('one'); raise SystemExit('no such model')"]
    with (
        pytest.raises(StartError, match="ended with 1: no such model"),
        running(command, free_port(), "m"),
    ):
        raise AssertionError("it started")


def test_one_that_refuses_the_request_is_not_waited_for() -> None:
    port = free_port()
    with (
        pytest.raises(StartError, match="answers with 400: what is this"),
        running(answering(port, "what is this", 400), port, "m"),
    ):
        raise AssertionError("it started")


def test_a_proxy_that_changes_responses_is_refused() -> None:
    port = free_port()
    with running(answering(port, CHANGED), port, "m") as pid:
        proxy = Proxy("changing", port, pid, "m", {})
        with pytest.raises((StartError, ValueError)):
            check.extra_events(proxy)


def test_the_upstream_itself_has_three_events_that_are_no_token() -> None:
    with mock_upstreams(1) as upstreams:
        assert check.extra_events(Proxy("direct", upstreams.ports[0], None, "small", {})) == 3


def test_time_and_memory_are_those_of_the_whole_family() -> None:
    # a little longer than is asserted: the system counts in whole ticks of 10 ms
    busy = "import time\nwhile time.process_time() < 0.35: pass\nprint(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        assert len(family(process.pid)) == 2
        assert 0.3 <= cpu_seconds(process.pid) < 5
        assert resident_bytes(process.pid) > resident_bytes(family(process.pid)[1]) > 1 << 20
        process.stdin.close()


def test_each_peer_has_one_pinned_version() -> None:
    pins = peer_environments.pins()
    assert set(pins) == {"litellm", "vllm-router", "sglang-router"}
    assert all(pin.count("==") == 1 for pin in pins.values())


def test_an_environment_counts_while_its_pin_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not peer_environments.installed("litellm", tmp_path)
    (tmp_path / "litellm").mkdir()
    stamp = tmp_path / "litellm" / "installed.txt"
    stamp.write_text(peer_environments.pins()["litellm"])
    assert peer_environments.installed("litellm", tmp_path)
    assert peer_environments.environment("litellm", tmp_path) == tmp_path / "litellm" / "bin"
    monkeypatch.setattr(peer_environments, "pins", lambda: {"litellm": "litellm==0"})
    assert not peer_environments.installed("litellm", tmp_path)


def test_what_cannot_be_installed_is_not_taken_for_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "nothing-here.whl")
    monkeypatch.setattr(peer_environments, "pins", lambda: {"x": missing})
    with pytest.raises(StartError, match="pip install"):
        peer_environments.environment("x", tmp_path)
    assert not peer_environments.installed("x", tmp_path)
