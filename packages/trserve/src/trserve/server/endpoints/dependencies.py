"""What an endpoint needs of its app and its request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from trserve.http.errors import ApiError
from trserve.http.middleware.exchange import request_id_of
from trserve.server.group.served_group import ServedGroup


def _served_group(request: Request) -> ServedGroup:
    served: ServedGroup = request.app.state.served
    return served


CurrentGroup = Annotated[ServedGroup, Depends(_served_group)]
RequestId = Annotated[str, Depends(request_id_of)]


def require_model(served: ServedGroup, name: str) -> None:
    """Raises ApiError (404) for any name but the served one."""
    if name != served.name:
        message = f"The model '{name}' does not exist. This server serves '{served.name}'."
        raise ApiError(404, message, param="model", code="model_not_found")
