"""What may be asked without generating anything: models, explanations, health, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from rbalance import WhyNot
from trserve.gateway.access.key_limits import check_models
from trserve.gateway.http.body_parser import parse_body
from trserve.gateway.http.current_gateway import CurrentGateway
from trserve.gateway.metrics.instance_rows import instance_rows
from trserve.gateway.pool.common_routing import common_routing
from trserve.gateway.pool.instance import capability_names
from trserve.http.errors import ApiError
from trserve.http.middleware.api_key import CALLER_KEY
from trserve.openai.documented_errors import documented_errors
from trserve.openai.schemas.model_list import NameCard, NameList

if TYPE_CHECKING:
    from rbalance.decide.explain import CandidateReport
    from trserve.gateway.gateway import Gateway
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.request.parsed_body import ParsedBody

router = APIRouter()


@router.get(
    "/v1/models", tags=["models"], summary="List the names", responses=documented_errors(401)
)
async def list_models(gateway: CurrentGateway) -> NameList:
    """`auto`, the aliases, and the pool's models; no instance is asked."""
    return NameList(data=[_card(gateway, name) for name in gateway.requests.names])


@router.get(
    "/v1/models/{model:path}",
    tags=["models"],
    summary="Describe a name",
    responses=documented_errors(401, 404),
)
async def get_model(model: str, gateway: CurrentGateway) -> NameCard:
    """The same object as in the list."""
    if model not in gateway.requests.names:
        message = f"The model {model!r} does not exist."
        raise ApiError(404, message, param="model", code="model_not_found")
    return _card(gateway, model)


class CandidateTerms(BaseModel):
    """The score's terms, without their weights."""

    quality: float
    cost: float
    latency: float


class Candidate(BaseModel):
    """One instance as the request sees it.

    instance: its name.
    model: the one that it serves.
    candidate: the request might go there.
    why_not: null for a candidate.
    score: of a candidate, from a policy that scores.
    quality: predicted of an answer there; null where it is closed or has no room.
    cost_usd: the same.
    seconds: the same.
    terms: of the score.
    running: requests that run there.
    waiting: requests that wait there.
    """

    instance: str
    model: str
    candidate: bool
    why_not: str | None
    score: float | None
    quality: float | None
    cost_usd: float | None
    seconds: float | None
    terms: CandidateTerms | None
    running: int
    waiting: int


class RouteAnswer(BaseModel):
    """Where the request would go now, and why; nothing was sent."""

    instance: str | None
    model: str | None
    reason: str
    policy: str
    weights: CandidateTerms | None
    prompt_tokens: int
    candidates: list[Candidate]


@router.post(
    "/v1/route",
    tags=["routing"],
    summary="Explain where a request would go",
    responses=documented_errors(400, 401, 404),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
)
async def route(request: Request, gateway: CurrentGateway) -> RouteAnswer:
    """The body is that of a chat completion, or of a completion (if it has a `prompt` only)."""
    body = parse_body(await request.body(), None)
    if (caller := request.scope.get(CALLER_KEY)) is not None:
        check_models(caller, body.names)
    wanted = gateway.requests.of(body, -1)
    found = await gateway.explain(wanted)
    # not the balancer's others: they gave their name up and only finish what they have
    by_number = {each.number: each for each in gateway.pool.instances}
    chosen = None if found.choice is None else by_number[found.choice]
    candidates = [
        Candidate(
            instance=by_number[each.instance].name,
            model=each.model,
            candidate=each.why_not is None,
            why_not=_why_not(each, body, by_number[each.instance]),
            score=None if each.terms is None else each.terms.score,
            quality=each.quality,
            cost_usd=each.usd,
            seconds=each.seconds,
            terms=None
            if each.terms is None
            else CandidateTerms(
                quality=each.terms.quality, cost=each.terms.cost, latency=each.terms.latency
            ),
            running=each.running,
            waiting=each.waiting,
        )
        for each in found.candidates
        if each.instance in by_number
    ]
    weights = gateway.balancing.weights  # of a policy that has some
    if weights is not None and wanted.weights is not None:
        weights = wanted.weights
    return RouteAnswer(
        instance=None if chosen is None else chosen.name,
        model=None if chosen is None else chosen.spec.model,
        reason=found.note or ("best score" if weights is not None else "policy"),
        policy=gateway.deployment.gateway.policy,
        weights=None
        if weights is None
        else CandidateTerms(quality=weights.quality, cost=weights.cost, latency=weights.latency),
        prompt_tokens=wanted.prompt_tokens,
        candidates=candidates,
    )


def _why_not(report: CandidateReport, body: ParsedBody, instance: Instance) -> str | None:
    """The balancer knows capabilities as bits only."""
    if next(iter(report.why), None) != WhyNot.LACKS_CAPABILITY:  # the first is the one told
        return report.why_not
    return "lacks " + ", ".join(capability_names(body.needs & ~instance.capabilities))


class GatewayHealth(BaseModel):
    """`ok`; `degraded`: some instances are down; `unavailable`: all are; `draining`."""

    status: Literal["ok", "degraded", "unavailable", "draining"]
    instances: dict[str, Literal["up", "down", "draining"]]


@router.get(
    "/health",
    tags=["operations"],
    summary="Can it answer?",
    response_model=GatewayHealth,
    responses={503: {"model": GatewayHealth, "description": "Draining, or no instance is up"}},
)
async def health(gateway: CurrentGateway) -> Response:
    """200 when requests are taken, 503 when not."""
    states: dict[str, Any] = {
        row.instance: "draining" if row.draining else "up" if row.up else "down"
        for row in instance_rows(gateway.pool)
    }
    up = [state == "up" for state in states.values()]
    status = "draining" if gateway.in_flight.draining else "unavailable"
    if not gateway.in_flight.draining and any(up):
        status = "ok" if all(up) else "degraded"
    report = GatewayHealth.model_validate({"status": status, "instances": states})
    return Response(
        report.model_dump_json(),
        status_code=200 if status in ("ok", "degraded") else 503,
        media_type="application/json",
    )


@router.get(
    "/metrics",
    tags=["operations"],
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(gateway: CurrentGateway) -> Response:
    """Prometheus' text format."""
    return Response(gateway.metrics.page(), headers={"content-type": CONTENT_TYPE_LATEST})


def _card(gateway: Gateway, name: str) -> NameCard:
    specs = [each.spec for each in gateway.requests.instances(name)]
    return NameCard(
        id=name,
        created=gateway.created,
        owned_by="gateway",
        tokenrouter=common_routing(specs, gateway.pool.groups),
    )
