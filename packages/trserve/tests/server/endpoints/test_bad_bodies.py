"""Bodies that are no JSON, not declared as it, or too large."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.trserve.demo_server import Demo, demo_server

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b'{"model": "demo",}', "invalid_json"),
        (b"\xff\xfe{}", "invalid_json"),
        (b'{"a": "\xff"}', "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"[]", "invalid_type"),
        (b'"text"', "invalid_type"),
        (b"null", None),
        (b"", None),
        (b"{}", "missing_required_parameter"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_bodies(demo: Demo, path: str, body: bytes, code: str | None) -> None:
    answer = demo.http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert code is None or answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"]


def test_body_that_is_not_declared_json(demo: Demo) -> None:
    answer = demo.http.post(CHAT, content=b'{"model": "demo"}')
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]["message"]


def test_large_bodies(demo: Demo) -> None:
    answer = demo.chat(user="x" * 10_000_000)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"
    assert demo.chat().status_code == 200


def test_large_bodies_of_undeclared_length() -> None:
    with demo_server() as demo:
        sent = 0

        def parts() -> Any:
            nonlocal sent
            for _ in range(200):
                sent += 1
                yield b" " * (1 << 16)

        answer = demo.http.post(CHAT, content=parts(), headers={"content-type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert demo.chat().status_code == 200


def test_one_bad_request_harms_no_other(demo: Demo) -> None:
    body = {"model": "demo", "prompt": "x", "stream": True}
    with demo.http.stream("POST", TEXT, json=body) as answer:
        for bad in (b"{", b"[]", b"\xff", b'{"model": 1}'):
            demo.http.post(CHAT, content=bad, headers={"content-type": "application/json"})
        assert "".join(answer.iter_text()).endswith("data: [DONE]\n\n")
