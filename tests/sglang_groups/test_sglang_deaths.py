"""Hundreds of short routed requests on SGLang; then processes are killed, and others go on."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.sglang_groups.tiny_group import tiny_config
from tests.support.trsched.groups import request
from tests.support.waiting import until
from trsched.group import Group
from trsched.hosts.process_host import ProcessHost
from trsched.loops.stream import Stream
from trsched.request import FinalEvent, TokenEvent

pytestmark = pytest.mark.slow

REQUESTS = 300
CLIENTS = 16


@pytest.fixture(scope="module")
def pressed(pair: tuple[Path, Path]) -> Iterator[Group]:
    """KV for 6 of 16 requests, a threshold above 1, prompts read in parts."""
    config = tiny_config(pair, "bernoulli", {"p": 0.4}, sequences=6, thresholds=(1, 3), chunk=32)
    group = Group.open(config)
    yield group
    group.close()


def test_three_hundred_requests_at_16_clients(pressed: Group) -> None:
    """Some are aborted, some have deadlines they miss."""

    def ask(index: int) -> str:
        rng = random.Random(index)
        timeout_s = rng.choice([None, None, None, 0.02, 60.0])
        prompt = bytes(rng.randrange(3, 256) for _ in range(rng.choice([2, 10, 50])))
        stream = pressed.submit(
            request(index, rng.randrange(1, 12), prompt=prompt, timeout_s=timeout_s)
        )
        give_up = rng.randrange(1, 12) if index % 7 == 0 else None
        for expected, event in enumerate(stream):
            if isinstance(event, FinalEvent):
                assert stream.drained()
                return event.reason
            assert event.position == expected
            if expected + 1 == give_up:
                pressed.abort(stream)
        raise AssertionError("no final event")

    with ThreadPoolExecutor(CLIENTS) as pool:
        reasons = list(pool.map(ask, range(REQUESTS)))
    assert set(reasons) <= {"stop", "length", "abort", "deadline"}
    assert reasons.count("stop") + reasons.count("length") > REQUESTS / 2
    assert reasons.count("abort") > 0
    until(lambda: pressed.status().active == 0)
    until(lambda: not any(s.kv_tokens_used for s in pressed.status().subservers))
    status = pressed.status()
    assert sum(status.finished.values()) == REQUESTS
    assert sum(subserver.kv_reclaims for subserver in status.subservers) > 0
    for subserver in status.subservers:
        assert subserver.alive
        assert (subserver.waiting, subserver.running, subserver.pending) == (0, 0, 0)
        assert subserver.sequences_used == 0


def test_death_of_the_small_model(pressed: Group) -> None:
    assert_others_go_on(pressed, model=0, rank=0)


def test_death_of_a_rank(pair: tuple[Path, Path]) -> None:
    """One of two ranks takes the other along."""
    group = Group.open(tiny_config(pair, "bernoulli", {"p": 0.4}, tp=2))
    try:
        assert_others_go_on(group, model=1, rank=1)
    finally:
        group.close()


def assert_others_go_on(group: Group, *, model: int, rank: int) -> None:
    """A process is killed under load: requests go on with the other model, degraded.

    But one whose token has died with the process, on the way from it, ends with an error.
    """
    host = group.host
    assert isinstance(host, ProcessHost)
    streams = [group.submit(request(seed, 100, prompt=bytes([seed + 3]))) for seed in range(12)]
    events = [iter(stream) for stream in streams]
    begun = [next(each) for each in events[:3]]
    assert all(isinstance(event, TokenEvent) for event in begun)
    pids = host.process_ids[model]
    os.kill(pids[rank], signal.SIGKILL)
    finals = [final(stream) for stream in streams]
    lost = [event for event in finals if event.reason == "error"]
    assert all("lost with the model" in (event.error or "") for event in lost)
    assert len(lost) < len(finals) / 4
    assert {event.reason for event in finals} <= {"length", "stop", "error"}
    assert any(event.degraded for event in finals if event not in lost)
    until(lambda: not group.status().subservers[model].alive)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    _, last = group.submit(request(99)).result()  # new ones are served, too
    assert last.reason == "length"
    assert last.degraded
    left = 1 - model
    until(lambda: group.status().subservers[left].kv_tokens_used == 0)
    status = group.status()
    assert status.subservers[left].alive
    assert status.subservers[left].sequences_used == 0
    assert (status.active, status.queued) == (0, 0)


def final(stream: Stream) -> FinalEvent:
    *_, last = stream
    assert isinstance(last, FinalEvent)
    return last
