"""Chunks of the stream to fragments and a summary."""

from __future__ import annotations

import json

import httpx
import pytest

from trserve.cli.chat.client import Answer, ChatClient, ChatError, Fragment, Sampling

MESSAGES = [{"role": "user", "content": "Hi"}]


def chunk(text=None, models=None, *, finish=None, usage=None, pieces=None):
    choice = {
        "index": 0,
        "delta": {} if text is None else {"content": text},
        "finish_reason": finish,
    }
    if models is not None:
        choice["tokenrouter"] = {"models": models, "token_ids": [1] * len(models)}
    if pieces is not None:
        choice["logprobs"] = {"content": [{"bytes": list(piece)} for piece in pieces]}
    return {"choices": [] if usage else [choice], "usage": usage}


def client(*events, status=200, key=None):
    """Of a server that answers each chat request with these events."""
    requests = []

    def answer(request):
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "served"}]})
        if request.url.path == "/health":
            return httpx.Response(503, json={"subservers": [{"name": "slm"}, {"name": "llm"}]})
        requests.append(request)
        if status != 200:
            return httpx.Response(status, json={"error": {"message": "too long"}})
        lines = [*(f"data: {json.dumps(event)}" for event in events), "data: [DONE]", ""]
        return httpx.Response(200, text="\n\n".join(lines))

    made = ChatClient("http://server/v1/", key, transport=httpx.MockTransport(answer))
    return made, requests


def test_an_answer():
    usage = {"tokenrouter": {"handoffs": 2, "completion_tokens_by_model": {}}}
    chat, requests = client(
        chunk(""),
        chunk("Pa", [0]),
        chunk("ris", [1]),
        chunk("", [1]),
        chunk("é.", [0]),
        chunk(finish="stop"),
        chunk(usage=usage),
        key="secret",
    )
    answer = Answer(chat.models)
    with chat:
        fragments = list(chat.ask(MESSAGES, Sampling(9, 0.5, 7), answer))
    assert fragments == [Fragment("Pa", 0), Fragment("ris", 1), Fragment("é.", 0)]
    assert (answer.text, answer.model_per_token) == ("Parisé.", [0, 1, 1, 0])
    assert answer.tokens_per_model == {"slm": 2, "llm": 2}
    assert (answer.handoffs, answer.finish_reason) == (2, "stop")
    assert answer.ttft_s is not None
    assert 0 <= answer.ttft_s <= answer.seconds
    assert answer.tokens_per_s > 0
    (request,) = requests
    assert request.headers["authorization"] == "Bearer secret"
    body = json.loads(request.content)
    assert (body["model"], body["max_tokens"], body["seed"]) == ("served", 9, 7)
    assert body["tokenrouter"] == {"model_per_token": True}


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("abc", [b"a", b"bc"], [Fragment("a", 0), Fragment("bc", 1)]),
        ("abX", [b"a", b"b"], [Fragment("abX", 1)]),  # held back from an earlier chunk
        ("é", ["é".encode()[:1], "é".encode()[1:]], [Fragment("é", 1)]),
        ("abc", None, [Fragment("abc", 1)]),
    ],
)
def test_a_chunk_of_two_models(text, pieces, expected):
    chat, _ = client(chunk(text, [0, 1], pieces=pieces))
    with chat:
        assert list(chat.ask(MESSAGES, Sampling(), Answer(chat.models))) == expected


def test_refusals():
    chat, _ = client(status=400)
    with chat, pytest.raises(ChatError, match="too long"):
        list(chat.ask(MESSAGES, Sampling(), Answer(chat.models)))
    chat, _ = client(chunk("a", [0]), {"error": {"message": "shutting down"}})
    answer = Answer(chat.models)
    with chat, pytest.raises(ChatError, match="shutting down"):
        list(chat.ask(MESSAGES, Sampling(), answer))
    assert answer.text == "a"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (httpx.Response(401, json={"error": {"message": "no key"}}), "no key"),
        (httpx.Response(404, text="nothing"), "404"),
        (httpx.Response(200, text="<html>"), "no trserve server"),
        (httpx.Response(200, json={"data": []}), "no trserve server"),
        (httpx.Response(200, json=[]), "no trserve server"),
    ],
)
def test_not_our_server(reply, message):
    with pytest.raises(ChatError, match=message):
        ChatClient("http://server", transport=httpx.MockTransport(lambda request: reply))
