"""What the gateway doesn't know it passes on as it is, in both directions (14, 15, 18)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.gateway.running_gateway import RunningGateway, chat_request
from tests.support.gateway.scripted_upstream import ScriptedUpstream
from tests.support.gateway.upstream_answers import (
    DONE,
    LAST_CHUNK,
    chat_body,
    chat_chunk,
    chat_events,
    chunk,
    chunked_head,
    event,
    play,
    polite,
    response,
    streamed,
    whole,
)

# the gateway's thread draws random numbers while Hypothesis looks on
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SPACES = st.sampled_from(["", " ", "\n\t", "\r\n  "])
NUMBERS = st.sampled_from(
    ["0", "-0", "-0.0", "1.50", "1e400", "1E+2", "12345678901234567890123", "0.1000000000000000055"]
)
STRINGS = st.one_of(
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [r'"\u00e9"', '"é"', r'"\ud83d\ude00"', r'"\/"', r'"a\"b\\"', '"\u2028🦀"', '""']
    ),
)


def _array(items: list[str], space: str) -> str:
    return f"[{space}" + f"{space},".join(items) + f"{space}]"


def _object(items: list[tuple[str, str]], space: str) -> str:
    return f"{{{space}" + f",{space}".join(f"{key}{space}:{value}" for key, value in items) + "}"


VALUES = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "false"])),
    lambda inner: st.one_of(
        st.builds(_array, st.lists(inner, max_size=3), SPACES),
        st.builds(_object, st.lists(st.tuples(STRINGS, inner), max_size=3), SPACES),
    ),
    max_leaves=8,
)
KEYS = st.one_of(
    st.sampled_from(
        [r'"\u0061"', '"a"', '"A"', '"Model"', '"model "', '"Stream"', '"tokenrouter2"']
    ),
    st.sampled_from(["seed", "temperature", "chat_template_kwargs", "stop"]).map(json.dumps),
    st.text(min_size=1, max_size=5).map(json.dumps),
)


@pytest.fixture
def both(upstreams, gateways) -> tuple[ScriptedUpstream, RunningGateway]:
    (server,) = upstreams(count=1)
    return server, gateways([server])


def fields_of(body: bytes) -> dict[str, bytes]:
    """Each field's bytes."""
    return {
        name: bytes(value)
        for name, value in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items()
    }


def test_a_request_arrives_as_it_was_sent(both) -> None:
    """Every byte of every value, in its place; only `model` is another and `routebalance` gone."""
    server, gateway = both

    @MANY
    @given(
        st.lists(st.tuples(KEYS, VALUES), max_size=5),
        st.integers(0, 5),
        st.sampled_from(
            ["", '"routebalance": {"weights":"cost", "explain": false}', '"routebalance":null']
        ),
        SPACES,
    )
    def check(pairs: list[tuple[str, str]], at: int, options: str, space: str) -> None:
        known = ("model", "messages", "stream", "routebalance", "max_tokens")
        pairs = [pair for pair in pairs if json.loads(pair[0]) not in known]
        text = [f"{space}{key}{space}:{space}{value}{space}" for key, value in pairs]
        own = ['"model":"auto"', '"messages":[ {"role":"user", "content":"\\u0048i", "x":1.0} ]']
        text[at:at] = [*own, options] if options else own
        body = ("{" + ",".join(text) + "}").encode()
        answer = gateway.http.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 200, (answer.text, body)
        got = server.exchanges[-1].body
        sent = fields_of(body)
        sent.pop("routebalance", None)
        assert list(fields_of(got).items()) == list({**sent, "model": b'"small"'}.items())

        def exact(data: bytes) -> Any:
            fields = json.loads(data, parse_float=str, parse_int=str)
            return {name: each for name, each in fields.items() if name != "routebalance"}

        assert exact(got) == {**exact(body), "model": "small"}

    check()


def test_headers_arrive_too_but_not_keys_or_hop_by_hop_ones(both) -> None:
    server, gateway = both
    headers = {
        "authorization": "Bearer client",
        "cookie": "a=b",
        "connection": "keep-alive",
        "accept-encoding": "gzip",
        "x-request-id": "abc",
        "x-session": "s-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "user-agent": "me/1",
    }
    answer = gateway.http.post(
        "/v1/chat/completions",
        json={"model": "auto", "messages": [{"role": "user", "content": "x"}]},
        headers=headers,
    )
    assert answer.headers["x-request-id"] == "abc"
    got = server.exchanges[0].headers
    assert got["x-session"] == "s-1"
    assert got["user-agent"] == "me/1"
    assert got["x-request-id"] == "abc"
    assert got["accept-encoding"] == "identity"
    assert got["content-type"] == "application/json"
    assert "0af7651916cd43dd8448eb211c80319c" in got["traceparent"]
    assert not {"authorization", "cookie"} & got.keys()


def test_what_else_a_head_may_have(both) -> None:
    """A query, headers twice, in UTF-8, and for this hop alone."""
    server, gateway = both
    gateway.http.post(
        "/v1/chat/completions?api-version=1&x=%26",
        json=chat_request(),
        headers=[
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("x-two", "1"),
            ("x-two", "2"),
            ("x-utf-8", "café".encode()),
            ("x-latin-1", b"caf\xe9"),
        ],
    )
    head = server.exchanges[0].head.lower()
    assert b"post /v1/chat/completions?api-version=1&x=%26 http/1.1\r\n" in head
    assert b"\nx-two: 1, 2\r\n" in head
    assert "\nx-utf-8: café\r\n".encode() in head
    assert "\nx-latin-1: café\r\n".encode() in head  # aiohttp sends nothing else
    assert b"x-hop" not in head


def test_the_instances_own_key_is_sent(upstreams, gateways, monkeypatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "s3cret")
    (server,) = upstreams(count=1)
    gateway = gateways([server], each={"api_key_env": "UPSTREAM_KEY"})
    gateway.http.post(
        "/v1/chat/completions",
        json={"model": "auto", "messages": [{"role": "user", "content": "x"}]},
        headers={"authorization": "Bearer client"},
    )
    assert server.exchanges[0].headers["authorization"] == "Bearer s3cret"


LINES = st.sampled_from(["\n", "\r\n"])
EVENTS = st.lists(
    st.one_of(
        st.text(max_size=12).map(
            lambda text: "data: " + json.dumps(chat_chunk(text), ensure_ascii=False)
        ),
        st.sampled_from(
            [": ping", "event: x\ndata: {}", "id: 1\nretry: 5\ndata:{}", "data: 🦀é\u2028"]
        ),
    ),
    min_size=1,
    max_size=6,
)


def cut_up(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({at % len(data) for at in cuts} - {0})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def test_a_stream_comes_back_byte_by_byte_wherever_it_was_cut(both) -> None:
    """Over chunks and segments alike; so no character is ever damaged."""
    server, gateway = both

    @MANY
    @given(EVENTS, LINES, st.lists(st.integers(0, 10_000), max_size=8), st.booleans())
    def check(events: list[str], line: str, cuts: list[int], segments: bool) -> None:
        text = "".join(each.replace("\n", line) + line * 2 for each in [*events, "data: [DONE]"])
        data = text.encode()
        if segments:
            http = chunked_head() + chunk(data) + LAST_CHUNK
            server.answer = play(*cut_up(http, cuts))
        else:
            server.answer = streamed(cut_up(data, cuts))
        with gateway.stream() as answer:
            assert answer.status_code == 200
            assert answer.read() == data

    check()
    gateway.wait_until_idle()


def test_a_whole_answer_comes_back_byte_by_byte(both) -> None:
    server, gateway = both

    @MANY
    @given(VALUES, SPACES, st.lists(st.integers(0, 10_000), max_size=5))
    def check(value: str, space: str, cuts: list[int]) -> None:
        body = f'{space}{{"choices":[],{space}"new_field":{value}}}{space}'.encode()
        server.answer = play(*cut_up(response(200, body), cuts))
        answer = gateway.chat()
        assert (answer.status_code, answer.content) == (200, body)

    check()
    gateway.wait_until_idle()


@pytest.mark.parametrize(
    "odd",
    [r'{"choices":[],"text":"\ud83d"}', '{"logprob":-Infinity,"usage":{"completion_tokens":9}}'],
)
def test_what_python_takes_for_json_comes_back_too(both, odd: str) -> None:
    """Half a character, escaped, and infinite log-probabilities: some servers send such."""
    server, gateway = both
    server.answer = whole(odd.encode())
    answer = gateway.chat()
    assert (answer.status_code, answer.text) == (200, odd)


def test_headers_come_back_too(upstreams, gateways) -> None:
    sent = ("x-ratelimit-remaining: 3", "set-cookie: a=1", "set-cookie: b=2", "openai-model: q")
    hop = ("connection: keep-alive", "keep-alive: timeout=5", "server: nginx", "x-request-id: up")
    gateway = gateways(upstreams(whole(chat_body(), *sent, *hop)))
    answer = gateway.chat()
    assert answer.headers["x-ratelimit-remaining"] == "3"
    assert answer.headers["openai-model"] == "q"
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert "keep-alive" not in answer.headers
    assert "server" not in answer.headers
    assert answer.headers["x-request-id"] != "up"
    assert len(answer.headers.get_list("content-length")) == 1


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def test_tools_logprobs_and_n_reach_the_instance_and_come_back(both) -> None:
    server, gateway = both
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    logprobs = {"content": [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}]}

    def parts(index: int) -> list[dict[str, Any]]:
        first, second = chat_chunk("x", index=index), chat_chunk("", index=index)
        first["choices"][0]["logprobs"] = logprobs
        second["choices"][0]["delta"] = {"tool_calls": [call]}
        return [first, second, chat_chunk("", index=index, finish="tool_calls")]

    interleaved = [each for pair in zip(parts(0), parts(1), strict=True) for each in pair]
    server.answer = streamed([*map(event, interleaved), DONE])
    asked = {"tools": TOOLS, "logprobs": True, "top_logprobs": 1, "n": 2, "return_token_ids": True}
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    with gateway.openai() as client:
        chunks = list(
            client.chat.completions.create(
                model="auto",
                messages=[{"role": "user", "content": "Hi"}],
                stream=True,
                extra_body={"return_token_ids": True, **extra},
                **{name: asked[name] for name in ("tools", "logprobs", "top_logprobs", "n")},
            )
        )
    got = server.exchanges[0].json
    assert {name: got[name] for name in (*asked, *extra)} == {**asked, **extra}
    assert [chunk.choices[0].index for chunk in chunks] == [0, 1] * 3
    assert chunks[0].choices[0].logprobs.content[0].logprob == -0.5
    assert chunks[2].choices[0].delta.tool_calls[0].function.name == "f"


@pytest.mark.parametrize(
    ("lacking", "asked", "param"),
    [
        ("tools", {"tools": TOOLS}, "tools"),
        ("logprobs", {"logprobs": True}, "logprobs"),
        ("n", {"n": 2}, "n"),
        ("json", {"response_format": {"type": "json_object"}}, "json"),
    ],
)
def test_what_no_instance_can_do_is_refused_by_name(
    upstreams, gateways, lacking: str, asked: dict[str, Any], param: str
) -> None:
    able = [name for name in ("tools", "logprobs", "n", "images", "json") if name != lacking]
    (server,) = upstreams(count=1)
    gateway = gateways([server], models=[{"name": "small", "capabilities": able}])
    answer = gateway.chat(**asked)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (
        "unsupported",
        param,
    )
    assert not server.exchanges
    assert gateway.chat(n=1, tools=[], logprobs=False).status_code == 200


def test_a_capability_is_looked_for_where_it_is(upstreams, gateways) -> None:
    plain, able = upstreams(count=2)
    gateway = gateways(
        [plain, able],
        models=[{"name": "small", "capabilities": []}, {"name": "able"}],
        instances=[
            {"name": "a", "model": "small", "url": plain.url},
            {"name": "b", "model": "able", "url": able.url},
        ],
    )
    assert {gateway.chat(tools=TOOLS).headers["x-routebalance-instance"] for _ in range(5)} == {"b"}


@pytest.mark.parametrize("size", [100_000, 3_000_000, 6_000_000])
def test_large_answers(both, size: int) -> None:
    """Held to be looked at, or passed on as they come: the bytes are the same."""
    server, gateway = both
    body = chat_body("é" * (size // 2))
    server.answer = whole(body)
    assert gateway.chat().content == body
    events = [event(chat_chunk("x" * size)), *chat_events(["y"])]
    server.answer = streamed(events)
    with gateway.stream() as answer:
        assert answer.read() == b"".join(events)
    gateway.wait_until_idle()


def test_1xx_answers_are_not_the_answer(both) -> None:
    server, gateway = both
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    server.answer = play(early + response(200, chat_body()))
    assert gateway.chat().content == chat_body()


def test_completions_go_to_completions(both) -> None:
    server, gateway = both
    server.answer = polite
    answer = gateway.http.post("/v1/completions", json={"model": "auto", "prompt": [[1, 2], [3]]})
    assert answer.status_code == 200
    assert server.exchanges[0].path == "/v1/completions"
    assert server.exchanges[0].json["prompt"] == [[1, 2], [3]]
