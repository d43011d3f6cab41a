"""A gateway with made-up instances: it answers as `trserve gateway` does, without any model.

Decisions follow the weights; answers are fixed sentences. One instance is a token-routed pair.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rbalance.policies.weights import PRESETS
from trserve.http import playground

HOLD = "hold"
"""A prompt whose answer stops after three tokens until its client leaves."""
CUT, DIE, JUNK = "cut", "die", "junk"
"""Prompts whose answers break off after three tokens: at their end, without one, with no JSON."""
THINK = "think"
"""A prompt whose answer has reasoning before it, under both names that servers give it."""
GOALS = ("quality", "cost", "latency")


@dataclass(frozen=True)
class Instance:
    """terms: of the score, in the order of GOALS. split: a routed pair."""

    name: str
    model: str
    terms: tuple[float, float, float]
    usd: float
    seconds: float
    up: bool = True
    split: bool = False


POOL = (
    Instance("small-a", "qwen-0.6b", (0.41, 0.95, 0.93), 2e-6, 0.31),
    Instance("small-b", "qwen-0.6b", (0.41, 0.95, 0.84), 2e-6, 0.64),
    Instance("pair", "qwen-pair", (0.67, 0.7, 0.71), 1e-5, 1.2, split=True),
    Instance("large-a", "qwen-32b", (0.83, 0.0, 0.2), 4.2e-5, 3.4),
    Instance("large-b", "qwen-32b", (0.83, 0.0, 0.0), 4.2e-5, 4.1, up=False),
)
THRESHOLD = {
    "name": "tau",
    "value": None,
    "low": 0.0,
    "high": 1.0,
    "meaning": "The lower, the more.",
}
ROUTING = {"models": ["qwen-s", "qwen-l"], "router": "r_stitch", "threshold": THRESHOLD}
WORDS = ["The", " answer", " comes", " from", " one", " of", " several", " servers", "."]
MAKERS = [0, 0, 1, 0, 0, 0, 1, 1, 0]


@dataclass
class FakeGateway:
    """ids: of /v1/models. bodies: of the requests for text that came.
    left: set when a client left a held answer."""

    ids: list[str] = field(
        default_factory=lambda: ["auto", *dict.fromkeys(instance.model for instance in POOL)]
    )
    bodies: list[dict[str, Any]] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    refuse_extension: bool = False

    def __post_init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["instance", "model"]
        self.gauges = {
            name: Gauge(f"trgateway_instance_{name}", name, labels, registry=registry)
            for name in ("running", "waiting", "pending_tokens", "up", "telemetry_age_seconds")
        }
        self.decisions = Counter("trgateway_decisions", "made", labels, registry=registry)
        self.tokens = Counter("trgateway_tokens", "sent", ["instance"], registry=registry)
        self.histograms = [
            Histogram(f"trgateway_{name}", name, registry=registry)
            for name in (
                "time_to_first_token_seconds",
                "request_duration_seconds",
                "decision_seconds",
            )
        ]
        for at, instance in enumerate(POOL):
            load = (3 + at, at, 210 * at, float(instance.up), 0.12 * (at + 1))
            for gauge, value in zip(self.gauges.values(), load, strict=True):
                gauge.labels(instance.name, instance.model).set(value)
            self.decisions.labels(instance.name, instance.model)

    def app(self) -> FastAPI:
        """The page, too."""
        app = FastAPI()
        app.include_router(playground.router)
        for path, method, endpoint in (
            ("/v1/models", "GET", self.models),
            ("/health", "GET", self.health),
            ("/metrics", "GET", self.metrics),
            ("/v1/route", "POST", self.route),
            ("/v1/chat/completions", "POST", self.chat),
        ):
            app.add_api_route(path, endpoint, methods=[method], response_model=None)
        return app

    def models(self) -> dict[str, Any]:
        card = {"object": "model", "created": 0, "owned_by": "gateway"}
        routing = {"qwen-pair": {"tokenrouter": ROUTING}}
        cards = [{"id": each, **card, **routing.get(each, {})} for each in self.ids]
        return {"object": "list", "data": cards}

    def health(self) -> dict[str, str]:
        return {"status": "degraded"}

    def metrics(self) -> PlainTextResponse:
        return PlainTextResponse(generate_latest(self.registry))

    async def route(self, request: Request) -> dict[str, Any]:
        return decision(await request.json())

    async def chat(self, request: Request) -> JSONResponse | StreamingResponse:
        body = await request.json()
        self.bodies.append(body)
        if self.refuse_extension and "tokenrouter" in body:
            message = "Unknown parameter: tokenrouter."
            error = {
                "message": message,
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
            return JSONResponse({"error": error}, 400)
        chosen = decision(body)
        instance = next(each for each in POOL if each.name == chosen["instance"])
        self.decisions.labels(instance.name, instance.model).inc()
        self.tokens.labels(instance.name).inc(len(WORDS))
        for histogram in self.histograms:
            histogram.observe(0.03)
        headers = {
            "x-routebalance-instance": instance.name,
            "x-routebalance-model": instance.model,
            "x-routebalance-reason": chosen["reason"],
        }
        events = self.events(body, instance)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def events(self, body: dict[str, Any], instance: Instance) -> AsyncIterator[str]:
        prompt = body["messages"][0]["content"]
        for at, chunk in enumerate(chunks(instance, "tokenrouter" in body)):
            if at < 2 and prompt == THINK:
                delta = chunk["choices"][0]["delta"]
                delta[("reasoning_content", "reasoning")[at]] = delta.pop("content")
            if at == 3:
                if prompt == CUT:
                    return
                if prompt == DIE:
                    raise ConnectionError
                if prompt == JUNK:
                    yield "data: {\n\n"
                if prompt == HOLD:
                    await self.hold()
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    async def hold(self) -> None:
        """Until the client leaves, which cancels its response."""
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


def chunks(instance: Instance, by_model: bool) -> Iterator[dict[str, Any]]:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": instance.model}
    for at, word in enumerate(WORDS):
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        if instance.split and by_model:
            choice["tokenrouter"] = {"models": [MAKERS[at]], "token_ids": [at]}
        yield {**head, "choices": [choice]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage: dict[str, Any] = {
        "prompt_tokens": 5,
        "completion_tokens": len(WORDS),
        "total_tokens": 14,
    }
    if instance.split:
        counts = {"qwen-s": MAKERS.count(0), "qwen-l": MAKERS.count(1)}
        usage["tokenrouter"] = {"completion_tokens_by_model": counts, "handoffs": 4}
    yield {**head, "choices": [], "usage": usage}


def decision(body: dict[str, Any]) -> dict[str, Any]:
    """As `POST /v1/route` answers."""
    wanted = body.get("routebalance", {}).get("weights", "balanced")
    if isinstance(wanted, str):
        wanted = dict(zip(GOALS, PRESETS[wanted], strict=True))
    candidates = [candidate(at, body["model"], wanted) for at in range(len(POOL))]
    best = max(candidates, key=lambda each: each["score"] or -1.0)
    return {
        "instance": best["instance"],
        "model": best["model"],
        "reason": "best score",
        "weights": wanted,
        "candidates": candidates,
    }


def candidate(at: int, model: str, weights: dict[str, float]) -> dict[str, Any]:
    instance = POOL[at]
    why_not = None if instance.up else "unhealthy"
    if model not in ("auto", instance.model):
        why_not = "model not allowed"
    terms = dict(zip(GOALS, instance.terms, strict=True))
    return {
        "instance": instance.name,
        "model": instance.model,
        "candidate": why_not is None,
        "why_not": why_not,
        "score": None if why_not else sum(weights[goal] * terms[goal] for goal in GOALS),
        "quality": terms["quality"],
        "cost_usd": instance.usd,
        "seconds": instance.seconds,
        "terms": None if why_not else terms,
        "running": 3 + at,
        "waiting": at,
    }
