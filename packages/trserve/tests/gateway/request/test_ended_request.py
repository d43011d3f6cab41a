"""What is known of a request at its end, from what came of its rounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rbalance import Terms
from rbalance.policies.weights import PRESETS
from trserve.gateway.http.body_parser import parse_body
from trserve.gateway.request.attempted import Attempted, RoundOutcome, Tries
from trserve.gateway.request.decision import Decision
from trserve.gateway.request.ended_request import EndedRequest, ended_request
from trserve.gateway.request.received_request import ReceivedRequest

BODY = parse_body(b'{"model": "auto", "messages": [{"content": "Hi"}]}', "chat")
RECEIVED = ReceivedRequest("r", "/v1/chat/completions", {}, BODY, 100.0, 200.0)
TERMS = Terms(score=0.5, quality=0.5, cost=0.5, latency=0.5, usd=0.1, seconds=2.0)


def decided(name: str, terms: Terms | None = TERMS) -> Decision:
    instance: Any = SimpleNamespace(name=name, number=0, spec=SimpleNamespace(model=f"m-{name}"))
    return Decision(instance, 8.0, terms, PRESETS["latency"], 101.0, "policy")


ANSWERED = Attempted(
    RoundOutcome.ANSWERED, decided("a"), sent=True, prompt_tokens=5, tokens=7, first_at=101.5
)


def ended(*rounds: Attempted, status: int = 200) -> EndedRequest:
    tries = Tries()
    for each in rounds:
        tries = tries.after(each)
    return ended_request(RECEIVED, tries, status, 106.0)


def test_one_that_was_served() -> None:
    found = ended(ANSWERED)
    assert found.served
    assert (found.instance, found.model, found.tries) == ("a", "m-a", 1)
    assert found.usage == (5, 7)
    assert (found.seconds, found.first_token_s, found.predicted_s) == (6.0, 1.5, 2.0)
    assert found.regret is not None
    assert found.regret > 0  # it took five seconds from the decision instead of two


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (replace(ANSWERED, broken="it broke off"), 200),
        (replace(ANSWERED, outcome=RoundOutcome.STOPPED), 200),
        (replace(ANSWERED, outcome=RoundOutcome.STOPPED), 499),
        (ANSWERED, 400),
        (replace(ANSWERED, outcome=RoundOutcome.FAILED), 500),
    ],
)
def test_one_that_was_not_is_no_measure(last: Attempted, status: int) -> None:
    found = ended(last, status=status)
    assert not found.served
    assert found.regret is None
    assert found.usage == (5, 7)


def test_a_policy_without_scores_predicts_nothing() -> None:
    found = ended(replace(ANSWERED, decision=decided("a", None)))
    assert found.served
    assert (found.predicted_s, found.regret) == (None, None)


def test_where_nobody_was_left_it_is_the_last_failures_answer() -> None:
    failed = Attempted(RoundOutcome.FAILED, decided("b"), sent=True, reason="status 500")
    found = ended(failed, Attempted(RoundOutcome.NOBODY, failed.decision), status=500)
    assert (found.instance, found.tries, found.usage) == ("b", 1, None)


@pytest.mark.parametrize("rounds", [(), (Attempted(RoundOutcome.NOBODY),)])
def test_one_that_came_to_no_instance(rounds: tuple[Attempted, ...]) -> None:
    found = ended(*rounds, status=503)
    assert (found.instance, found.model, found.tries) == ("", "", 0)
    assert (found.usage, found.first_token_s, found.predicted_s) == (None, None, None)
