"""Thousands of short routed requests: none lost, none stuck, nothing left behind."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.trsched.groups import profile_config, request
from trsched.group import Group
from trsched.request import FinalEvent

REQUESTS = 2_000
CLIENTS = 32


@pytest.mark.slow
@pytest.mark.parametrize(("models", "processes"), [(2, False), (3, False), (2, True), (3, True)])
def test_two_thousand_requests_at_32_clients(models: int, processes: bool) -> None:
    """Some are aborted, some have deadlines they miss, KV is short and thresholds are above 1."""
    router, settings = ("bernoulli", {"p": 0.4}) if models == 2 else ("me", {})
    config = profile_config(
        router,
        settings,
        models=models,
        thresholds=[1, 4, 3][:models],
        eos_rate=0.05,
        max_active=24,
        kv_memory=f"{9 * 256 * models}KiB",
        processes=processes,
    )
    group = Group.open(config)

    def ask(index: int) -> str:
        rng = random.Random(index)
        timeout_s = rng.choice([None, None, None, 0.001, 5.0])
        stream = group.submit(request(index, rng.randrange(1, 12), timeout_s=timeout_s))
        give_up = rng.randrange(1, 12) if index % 7 == 0 else None
        for expected, event in enumerate(stream):
            if isinstance(event, FinalEvent):
                assert stream.drained()
                return event.reason
            assert event.position == expected
            if expected + 1 == give_up:
                group.abort(stream)
        raise AssertionError("no final event")

    with ThreadPoolExecutor(CLIENTS) as pool:
        reasons = list(pool.map(ask, range(REQUESTS)))
    assert group.drain(30)
    group.close()
    assert set(reasons) <= {"stop", "length", "abort", "deadline"}
    assert reasons.count("stop") + reasons.count("length") > REQUESTS / 2
    assert reasons.count("abort") > 0
    status = group.status()
    assert sum(status.finished.values()) == REQUESTS
    assert (status.active, status.queued) == (0, 0)
    for subserver in status.subservers:
        assert subserver.alive
        assert (subserver.waiting, subserver.running, subserver.pending) == (0, 0, 0)
        assert (subserver.sequences_used, subserver.kv_tokens_used) == (0, 0)
