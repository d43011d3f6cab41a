"""`GET /metrics`, without a key: Prometheus' page of the HTTP side and the group."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from trserve.server.endpoints.dependencies import CurrentGroup

router = APIRouter(tags=["operations"])


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(served: CurrentGroup) -> Response:
    """Prometheus' text format."""
    return Response(served.metrics.page(), headers={"content-type": CONTENT_TYPE_LATEST})
