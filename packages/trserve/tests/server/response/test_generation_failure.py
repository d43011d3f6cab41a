"""A generation that is refused or ends badly: a status, or an event once the stream has begun."""

from __future__ import annotations

import pytest

from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply
from tests.support.trserve.sse_events import sse_events
from trsched.request import FinalEvent, FinishReason

ENDS = [
    ("deadline", 504, "timeout"),
    ("shutdown", 503, "shutdown"),
    ("error", 500, "engine_error"),
    ("abort", 500, "aborted"),
]


@pytest.mark.parametrize(("reason", "status", "code"), ENDS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_end_before_the_first_token_is_a_status(
    demo: Demo, reason: FinishReason, status: int, code: str, stream: bool
) -> None:
    final = FinalEvent(reason=reason, error="out of memory")
    demo.group.reply = lambda request: Reply("", final=final)
    answer = demo.chat(stream=stream, tokenrouter={"timeout_s": 5})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


@pytest.mark.parametrize(("reason", "status", "code"), ENDS)
def test_a_bad_end_later_is_an_error_event(
    own_demo: Demo, reason: FinishReason, status: int, code: str
) -> None:
    del status
    group = own_demo.group
    group.reply = lambda request: Reply("ab", hold_after=2)
    body = {"model": "demo", "prompt": "x", "stream": True, "n": 2, "tokenrouter": {"timeout_s": 9}}
    with own_demo.http.stream("POST", "/v1/completions", json=body) as answer:
        chunks = answer.iter_text()
        text = next(chunks)
        group.end_all(reason, error="out of memory")
        text += "".join(chunks)
    *_, last = sse_events(text)
    assert last["error"]["code"] == code
    assert text.count("data: [DONE]") == 1
    assert '"finish_reason":"' not in text


def test_one_failed_choice_ends_the_others(own_demo: Demo) -> None:
    replies = iter([Reply("a", final=FinalEvent(reason="error")), Reply("b", hold_after=1)])
    own_demo.group.reply = lambda request: next(replies)
    answer = own_demo.chat(n=2)
    assert answer.status_code == 500
    assert own_demo.group.wait_for(lambda group: group.aborts == ["abort"])


def test_a_full_queue_takes_all_choices_or_none(own_demo: Demo) -> None:
    own_demo.group.queue_limit = 2
    own_demo.group.reply = lambda request: Reply("x", hold_after=0)
    answer = own_demo.chat(n=3)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "queue_full"
    assert own_demo.group.aborts == ["abort", "abort"]


def test_draining(own_demo: Demo) -> None:
    own_demo.group.draining = True
    answer = own_demo.chat(stream=True)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unavailable"


def test_an_unexpected_error_is_logged_and_answered(own_demo: Demo) -> None:
    def broken(request: object) -> Reply:
        raise RuntimeError("surprise")

    own_demo.group.reply = broken
    answer = own_demo.chat()
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "surprise" not in answer.text
    assert answer.headers["x-request-id"]
    own_demo.group.reply = lambda request: Reply()
    assert own_demo.chat().status_code == 200
