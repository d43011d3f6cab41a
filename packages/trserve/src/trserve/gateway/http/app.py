"""The gateway's ASGI application."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from trserve import __version__
from trserve.gateway.gateway import Gateway
from trserve.gateway.http import admin, info_endpoints
from trserve.gateway.http.api_description import describe
from trserve.gateway.http.hot_paths import HotPaths
from trserve.http import playground
from trserve.http.errors import http_error_response
from trserve.http.middleware.api_key import ApiKeyMiddleware
from trserve.http.middleware.body_limit import BodyLimitMiddleware
from trserve.http.middleware.exchange import ExchangeMiddleware
from trserve.http.validation_errors import validation_error_response

_DESCRIPTION = """OpenAI-compatible, in front of any number of servers. `model: "auto"` leaves the
choice to the gateway; the request object `routebalance` says how to choose. Everything that the
gateway does not know is passed on as it is, in both directions."""


def create_gateway_app(gateway: Gateway) -> ASGIApp:
    """An app over a gateway that is entered already, and left by whoever entered it.

    FastAPI sees nothing of what HotPaths serves: its own layers cost a request of that kind 4 % of
    its time.
    """
    app = FastAPI(title="trserve gateway", version=__version__, description=_DESCRIPTION)
    app.state.gateway = gateway
    app.include_router(info_endpoints.router)
    app.include_router(admin.router)
    app.include_router(playground.router)
    app.add_exception_handler(HTTPException, http_error_response)
    app.add_exception_handler(RequestValidationError, validation_error_response)
    describe(app)
    served: ASGIApp = HotPaths(app, gateway)
    served = BodyLimitMiddleware(served, gateway.deployment.server.body_bytes)
    if gateway.keys.wanted:
        served = ApiKeyMiddleware(served, gateway.keys)
    return ExchangeMiddleware(served, gateway.metrics)
