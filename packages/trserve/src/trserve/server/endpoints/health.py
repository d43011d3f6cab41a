"""`GET /health`, without a key: does the server take requests, and which models are alive."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from trsched.shared.counters import GroupStatus
from trserve.openai.schemas.health import Health, SubserverHealth
from trserve.server.endpoints.dependencies import CurrentGroup

router = APIRouter(tags=["operations"])


@router.get(
    "/health",
    summary="Can it answer?",
    response_model=Health,
    responses={503: {"model": Health, "description": "Draining, or no model is left"}},
)
async def health(served: CurrentGroup) -> Response:
    """200 when requests are taken, 503 when not; in both cases with the state of every model."""
    report = _report(served.group.status())
    return Response(
        report.model_dump_json(),
        status_code=200 if report.status in ("ok", "degraded") else 503,
        media_type="application/json",
    )


def _report(status: GroupStatus) -> Health:
    alive = [subserver.alive for subserver in status.subservers]
    if not any(alive):
        state = "unavailable"
    elif status.draining:
        state = "draining"
    else:
        state = "ok" if all(alive) else "degraded"
    return Health.model_validate(
        {
            "status": state,
            "queued": status.queued,
            "active": status.active,
            "subservers": [
                SubserverHealth(
                    name=subserver.name,
                    alive=subserver.alive,
                    waiting=subserver.waiting,
                    running=subserver.running,
                    pending=subserver.pending,
                )
                for subserver in status.subservers
            ],
        }
    )
