"""What holds for every endpoint: keys, request ids, unknown paths, a line in the log."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.support.trserve.demo_server import Demo, demo_server
from tests.support.waiting import until


def test_unknown_paths_and_methods(demo: Demo) -> None:
    answer = demo.http.get("/v1/embeddings")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    answer = demo.http.get("/v1/chat/completions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_api_key() -> None:
    with demo_server(api_key="secret") as demo:
        assert demo.http.get("/health").status_code == 200
        assert demo.http.get("/metrics").status_code == 200
        answer = demo.chat()
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "missing_api_key"
        assert answer.headers["x-request-id"]
        for wrong in ("Bearer secret2", "Bearer sécret", "Basic secret", "Bearer", "secret"):
            headers = [(b"authorization", wrong.encode())]
            assert demo.http.get("/v1/models", headers=headers).status_code == 401
        assert demo.client.models.retrieve("demo").id == "demo"


def test_request_ids(demo: Demo) -> None:
    def id_for(wanted: str) -> str:
        return demo.http.get("/health", headers={"x-request-id": wanted}).headers["x-request-id"]

    assert id_for("my-id_1.2:3") == "my-id_1.2:3"
    for insane in ("", "a b", "x" * 200, "a\tb", "<script>"):
        assert id_for(insane) not in ("", insane)
    assert len({demo.chat().headers["x-request-id"] for _ in range(3)}) == 3
    failed = demo.http.get("/nowhere", headers={"x-request-id": "abc"})
    assert failed.headers["x-request-id"] == "abc"


def test_one_log_line_per_request(own_demo: Demo) -> None:
    body = {"model": "demo", "prompt": "x", "max_tokens": 5}
    with capture_logs() as lines:
        own_demo.http.post("/v1/completions", json=body, headers={"x-request-id": "abc"})
        until(lambda: any(line["event"] == "request finished" for line in lines))
    (line,) = [line for line in lines if line["event"] == "request finished"]
    assert line["request_id"] == "abc"
    assert line["model"] == "demo"
    assert line["finish"] == "length"
    assert line["completion_tokens"] == 5
    assert line["handoffs"] == 2
    assert line["ttft_s"] > 0
    assert line["tpot_s"] >= 0
