"""`trserve launch` with every model in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import httpx

from packages.trserve.tests.server.test_launch import NO_STOP, stream
from tests.support.trserve.server_process import ServerProcess, running_server

PROCESSES = ("--set", "processes=true")


def model_pids(server: ServerProcess) -> list[int]:
    """From the log, by model."""
    found = re.findall(r"model (\d) \w+: process (\d+)", "".join(server.lines))
    return [int(pid) for _, pid in sorted(found)]


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def left_behind(pids: list[int]) -> list[str]:
    names = [path.name for path in Path("/dev/shm").glob("trcore-*")]
    return [name for name in names if int(name.split("-")[2]) in pids]


def test_it_serves_and_drains(tmp_path):
    with running_server(tmp_path, *PROCESSES, *NO_STOP) as (server, url):
        pids = model_pids(server)
        assert len(set(pids)) == 2
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        with stream(url, 150) as chunks:
            first = next(chunks)
            server.signal()
            server.wait_for("stopping")
            rest = [first, *chunks]
        status, _, lines = server.finish()
    choices = [choice for chunk in rest for choice in chunk["choices"]]
    models = [m for c in choices for m in (c.get("tokenrouter") or {}).get("models", [])]
    assert len(models) == 150
    assert set(models) == {0, 1}
    assert choices[-1]["finish_reason"] == "length"
    assert status == 0
    assert "Traceback" not in "".join(lines)
    assert all(map(ended, pids))
    assert left_behind([server.process.pid, *pids]) == []


def test_the_second_signal_stops_at_once(tmp_path):
    with running_server(tmp_path, *PROCESSES, *NO_STOP) as (server, url), stream(url, 900) as got:
        pids = model_pids(server)
        next(got)
        server.signal()
        server.wait_for("stopping")
        server.signal()
        *_, last = got
        status, _, _ = server.finish()
    assert last["error"]["code"] == "shutdown"
    assert status == 130
    assert all(map(ended, pids))


def test_a_model_that_is_killed(tmp_path):
    """Its response goes on with the other one; the server says which process it was, and lives."""
    with running_server(tmp_path, *PROCESSES, *NO_STOP) as (server, url):
        pids = model_pids(server)
        with stream(url, 100) as chunks:
            first = next(chunks)
            os.kill(pids[1], signal.SIGKILL)
            rest = [first, *chunks]
        assert f"process {pids[1]} was killed by SIGKILL" in server.wait_for("died")
        assert json.dumps(rest).count('"degraded": true') == 1
        health = httpx.get(f"{url}/health").json()
        assert [each["alive"] for each in health["subservers"]] == [True, False]
        assert 'trserve_subserver_up{subserver="large"} 0.0' in httpx.get(f"{url}/metrics").text
        server.signal()
        assert server.finish()[0] == 0
    assert all(map(ended, pids))


def test_a_server_that_is_killed_leaves_nothing(tmp_path):
    with running_server(tmp_path, *PROCESSES) as (server, _):
        pids = [server.process.pid, *model_pids(server)]
        server.signal(signal.SIGKILL)
        server.finish()  # its stderr is at its end when the models' processes have gone, too
    assert left_behind(pids) == []
