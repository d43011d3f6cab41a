"""http_classifier over a real socket: answers, slowness, nonsense, absence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from rbalance.errors import ConfigError
from rbalance.policies.batch import RequestBatch, RouteRequest
from rbalance.predict.predictions import Prior
from rbalance.simulator.baselines.http_classifier import HttpClassifier
from rbalance.simulator.baselines.semantic_router import SemanticRouter

PRIOR = Prior(("a", "b"), np.array([0.5, 0.5], np.float32), np.array([10, 10], np.float32))


def asking(*prompts: str) -> RequestBatch:
    requests = [
        RouteRequest(key=at, prompt=prompt, prompt_tokens=1, max_tokens=1)
        for at, prompt in enumerate(prompts)
    ]
    return RequestBatch.of(requests, PRIOR.models, PRIOR.predictions(len(prompts)))


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.hold = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        if text == "slow":
            self.server.hold.wait(30)  # type: ignore[attr-defined]
        said = {"classification": {"category": text, "confidence": 0.9}}
        body = b"nonsense" if text == "odd" else json.dumps(said).encode()
        self.send_response(500 if text == "fails" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.hold.set()
        server.shutdown()
        thread.join()


def test_prompts_are_classified_and_failures_have_no_category(service: Service) -> None:
    classifier = HttpClassifier(f"http://127.0.0.1:{service.server_port}/classify", 20.0)
    batch = asking("math", "fails", "odd", "law")
    assert list(classifier.categories(batch)) == ["math", None, None, "law"]
    router = SemanticRouter(classifier, {"math": 1}, default=0)
    assert router.models(batch).model.tolist() == [1, 0, 0, 0]
    assert router.failed_open == 2
    classifier.close()


def test_a_slow_answer_costs_the_timeout_and_no_more(service: Service) -> None:
    classifier = HttpClassifier(f"http://127.0.0.1:{service.server_port}/classify", 0.3)
    found = classifier.categories(asking("slow", "slow"))
    assert list(found) == [None, None]
    service.hold.set()
    classifier.close()


def test_a_service_that_is_not_there_fails_open(service: Service) -> None:
    port = service.server_port
    service.shutdown()
    service.socket.close()
    classifier = HttpClassifier(f"http://127.0.0.1:{port}/classify", 20.0)
    assert list(classifier.categories(asking("math"))) == [None]
    classifier.close()


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"classifier\.url"):
        HttpClassifier("file:///etc/passwd")
    with pytest.raises(ConfigError, match=r"classifier\.timeout_s"):
        HttpClassifier("http://localhost", 0)
