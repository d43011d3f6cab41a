"""`trserve gateway` as a process: ready, drained, stopped, read again; its groups' lives."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.gateway.gate import Gate
from tests.support.gateway.running_gateway import HI, chat_request, pool
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    chat_events,
    chunk,
    chunked_head,
    play,
)
from tests.support.trserve.process_state import clear_variables, kept_logging
from tests.support.trserve.server_process import ServerProcess, running_server, server_process
from tests.support.waiting import until
from trserve.cli.main import main
from trserve.gateway import launch
from trserve.gateway.config.config import GatewayConfig
from trserve.gateway.pool.balancing import Balancing, open_balancing

FIRST = chat_events(["a"])[0]


@contextmanager
def gateway_process(
    folder: Path, config: dict[str, Any], *arguments: str
) -> Iterator[tuple[ServerProcess, str]]:
    path = folder / "gateway.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    source = ("--config", str(path))
    with running_server(folder, *arguments, source=source, server="gateway") as running:
        yield running


@contextmanager
def begun(url: str) -> Iterator[Iterator[bytes]]:
    """A stream of which the first event has come."""
    with (
        httpx.Client(timeout=60) as client,
        client.stream(
            "POST", f"{url}/v1/chat/completions", json=chat_request(stream=True)
        ) as answer,
    ):
        pieces = answer.iter_bytes()
        assert next(pieces) == FIRST
        yield pieces


@pytest.fixture
def slow(upstreams):
    gate = Gate()
    script = play(chunked_head(), chunk(FIRST), gate, chunk(DONE) + LAST_CHUNK)
    return gate, upstreams(script)


def test_the_first_ctrl_c_lets_requests_end(tmp_path, slow) -> None:
    gate, servers = slow
    with gateway_process(tmp_path, pool(servers), "--json-logs") as (process, url):
        with begun(url) as pieces, httpx.Client(base_url=url) as client:
            assert client.get("/health").status_code == 200
            process.signal()
            assert json.loads(process.wait_for("stopping"))["running"] == 1
            for asked in (client, httpx):  # over a connection that is kept, and over a new one
                health = asked.get(f"{url}/health")
                assert (health.status_code, health.json()["status"]) == (503, "draining")
                answer = asked.post(f"{url}/v1/chat/completions", json=chat_request())
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutdown")
                assert answer.headers["retry-after"] == "5"
                assert answer.headers["connection"] == "close"
            gate.open()
            assert b"".join(pieces) == DONE
        status, output, lines = process.finish()
    assert (status, output) == (0, "")
    assert "Traceback" not in "".join(lines)
    assert not (tmp_path / "ready.json").exists()


def test_the_second_stops_at_once(tmp_path, slow) -> None:
    _, servers = slow
    with gateway_process(tmp_path, pool(servers)) as (process, url):
        with begun(url) as pieces:
            process.signal()
            process.wait_for("stopping")
            process.signal()
            error, done, _ = b"".join(pieces).split(b"\n\n")
        status, _, lines = process.finish()
    assert b'"code":"shutdown"' in error
    assert done == b"data: [DONE]"
    assert status == 130
    assert "Traceback" not in "".join(lines)
    assert servers[0].exchanges[0].left.wait(5)


def test_draining_ends_in_time(tmp_path, slow) -> None:
    _, servers = slow
    with gateway_process(tmp_path, pool(servers), "--drain-timeout", "0.2") as (process, url):
        with begun(url) as pieces:
            process.signal(signal.SIGTERM)
            assert b'"code":"shutdown"' in b"".join(pieces)
        status, _, lines = process.finish()
    assert status == 0
    assert any("drain timeout" in line for line in lines)


def test_the_file_is_read_again_on_sighup(tmp_path, upstreams) -> None:
    one, two = upstreams(count=2)
    config = pool([one])
    path = tmp_path / "gateway.yaml"
    with gateway_process(tmp_path, config) as (process, url):
        path.write_text(yaml.safe_dump({**config, "models": []}), encoding="utf-8")
        process.signal(signal.SIGHUP)
        line = process.wait_for("configuration not changed")
        assert "models" in line
        assert httpx.get(f"{url}/health").json()["instances"] == {"a": "up"}
        path.write_text(yaml.safe_dump(pool([one, two])), encoding="utf-8")
        process.signal(signal.SIGHUP)
        process.wait_for("configuration read again")
        assert httpx.get(f"{url}/health").json()["instances"] == {"a": "up", "b": "up"}


def test_a_sighup_while_it_starts_is_not_its_end(tmp_path, upstreams) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(yaml.safe_dump(pool(upstreams(count=1))), encoding="utf-8")
    arguments = ["-m", "trserve", "gateway", "--config", str(path), "--port", "0"]
    with server_process(arguments) as process:
        process.wait_for("configuration")
        process.signal(signal.SIGHUP)
        process.wait_for("ready")
        process.signal()
        assert process.finish()[0] == 0


BAD = [
    ("models: []\n", 1, "models"),
    ("models:\n  - {name: m, quality: 2}\n", 2, "models[0].quality"),
    ("models:\n  - {name: m}\ninstances:\n  - {name: a, model: m}\n", 4, "instances[0]"),
    (
        "models:\n  - {name: m}\ninstances:\n  - name: a\n    model: n\n    url: http://x:1\n",
        5,
        "instances[0].model",
    ),
    (
        "models:\n  - {name: m}\ninstances:\n  - name: a\n    model: m\n    url: nonsense\n",
        6,
        "instances[0].url",
    ),
    ("models:\n  - {name: m}\ntimeouts:\n  idle_s: -1\n", 4, "timeouts.idle_s"),
    ("models:\n  - {name: m}\npolicy: best\n", 3, "policy"),
    ("models:\n  - {name: m}\nserver:\n  prot: 1\n", 4, "server.prot"),
    ("models:\n  - {name: m}\nretrys: {}\n", 3, "retrys"),
    ("models:\n  - {name: m\n", 3, ""),
    (
        "models: [{name: m}]\ninstances:\n- {name: a, model: m, url: 'http://x', api_key_env: NO}",
        3,
        "instances[0].api_key_env",
    ),
    ("models:\n  - {name: m}\npredictor: /nowhere\n", 3, "predictor"),
]


@pytest.mark.parametrize(("text", "line", "field"), BAD)
def test_a_bad_file_is_one_line_and_status_2(
    tmp_path, monkeypatch, capsys, text: str, line: int, field: str
) -> None:
    """Of file, line and field."""
    clear_variables(monkeypatch)
    path = tmp_path / "gateway.yaml"
    path.write_text(text, encoding="utf-8")
    with kept_logging():
        status = main(["gateway", "--config", str(path), "--port", "0"])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    (said,) = [each for each in err.splitlines() if "[info" not in each]
    assert str(path) in said
    assert f"line {line}" in said
    assert field in said


@pytest.mark.parametrize(
    ("group", "line", "column", "said"),
    [
        ("{name: g, preset: nope}", 3, 3, "groups[0]: preset: there is no 'nope'"),
        ("{name: g, config: nope.yaml}", 3, 3, "nope.yaml: No such file"),
        ("{name: g, preset: profile-demo, set: [modles=1]}", 3, 3, "modles"),
        ("{name: g, preset: profile-demo}", 6, 4, "instances[0].tier: no TPOT head for 'H900'"),
    ],
)
def test_what_check_finds_without_starting_anything(
    tmp_path, monkeypatch, capsys, group: str, line: int, column: int, said: str
) -> None:
    """The groups' own files, and which tiers times per token are known of."""
    clear_variables(monkeypatch)

    def with_heads(config: GatewayConfig) -> Balancing:
        balancing = open_balancing(config)
        balancing.tiers = frozenset({"m"})
        return balancing

    monkeypatch.setattr(launch, "open_balancing", with_heads)
    path = tmp_path / "gateway.yaml"
    text = f"models: [{{name: m}}]\ngroups:\n- {group}\ninstances:\n- {{name: a, model: m, group: g"
    path.write_text(f"{text}}}\n", encoding="utf-8")
    arguments = ["gateway", "--config", str(path), "--check"]
    if "nope" not in group and "modles" not in group:
        assert main(arguments) == 0
        path.write_text(f"{text},\n   tier: H900}}\n", encoding="utf-8")
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert f"{path} line {line} column {column}: " in err
    assert said in err
    assert len(err.splitlines()) == 1


GROUP: dict[str, Any] = {
    "models": [{"name": "small"}, {"name": "both"}],
    "groups": [{"name": "pair", "preset": "profile-demo"}],
    "instances": [
        {"name": "alone", "model": "small", "group": "pair", "only": "small"},
        {"name": "together", "model": "both", "group": "pair"},
    ],
    "checks": {"health_s": 0.1},
}


def ended(pid: int) -> bool:
    """Gone, or only waiting for its parent to take notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.slow
def test_a_local_group_lives_and_dies_with_the_gateway(tmp_path) -> None:
    """It is started, answers, is started again when killed, and goes when the gateway is killed."""
    with gateway_process(tmp_path, GROUP) as (process, url):
        (pid,) = (int(each) for each in re.findall(r"pid=(\d+)", "".join(process.lines)))

        def states() -> dict[str, str]:
            states: dict[str, str] = httpx.get(f"{url}/health").json()["instances"]
            return states

        def chat(model: str) -> httpx.Response:
            body = {"model": model, "messages": HI, "max_tokens": 8}
            return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)

        assert states() == {"alone": "up", "together": "up"}
        assert chat("small").json()["choices"][0]["message"]["content"]
        assert chat("both").headers["x-routebalance-instance"] == "together"
        os.kill(pid, signal.SIGKILL)
        process.wait_for("group ended")
        assert chat("both").status_code in (502, 503)
        until(lambda: states() == {"alone": "down", "together": "down"})
        line = process.wait_for("name=pair")
        (again,) = (int(each) for each in re.findall(r"pid=(\d+)", line))
        assert again != pid
        until(lambda: states() == {"alone": "up", "together": "up"})
        assert chat("both").status_code == 200
        process.signal(signal.SIGKILL)
        process.finish()
        until(lambda: ended(again))


@pytest.mark.slow
def test_a_group_that_cannot_be_served_ends_the_gateway(tmp_path) -> None:
    path = tmp_path / "gateway.yaml"
    broken = {**GROUP, "groups": [{"name": "pair", "preset": "profile-demo", "set": ["context=0"]}]}
    path.write_text(yaml.safe_dump(broken), encoding="utf-8")
    arguments = ["-m", "trserve", "gateway", "--config", str(path), "--port", "0"]
    with server_process(arguments) as process:
        status, output, lines = process.finish()
    assert (status, output) == (2, "")
    assert "groups.pair" in lines[-1]
    assert "Traceback" not in "".join(lines)
