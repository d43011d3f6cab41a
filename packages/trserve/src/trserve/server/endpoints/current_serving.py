"""What an endpoint needs of its app and its request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from trserve.http.errors import ApiError
from trserve.http.middleware.exchange import request_id_of
from trserve.server.serving import Serving


def _serving(request: Request) -> Serving:
    serving: Serving = request.app.state.serving
    return serving


CurrentServing = Annotated[Serving, Depends(_serving)]
RequestId = Annotated[str, Depends(request_id_of)]


def require_model(serving: Serving, name: str) -> None:
    """Raises ApiError (404) for any name but the served one."""
    if name != serving.name:
        message = f"The model '{name}' does not exist. This server serves '{serving.name}'."
        raise ApiError(404, message, param="model", code="model_not_found")
