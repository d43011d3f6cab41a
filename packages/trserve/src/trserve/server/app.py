"""The ASGI application over one `ServedGroup`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from trserve import __version__
from trserve.http import playground
from trserve.http.errors import http_error_response
from trserve.http.middleware.api_key import ApiKeyMiddleware, OneKey
from trserve.http.middleware.body_limit import BodyLimitMiddleware
from trserve.http.middleware.exchange import ExchangeMiddleware
from trserve.http.validation_errors import validation_error_response
from trserve.server.endpoints import chat, completions, health, metrics_page, models
from trserve.server.group.served_group import ServedGroup

_DESCRIPTION = """OpenAI-compatible, with one extension: the request object `tokenrouter`, by which
a client may ask which model made each token. What is not supported is refused by name."""


def create_app(served: ServedGroup) -> FastAPI:
    """A FastAPI app; its lifespan ties `served.delivery` to the event loop that runs it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        served.delivery.bind(asyncio.get_running_loop())
        try:
            yield
        finally:
            served.delivery.bind(None)

    app = FastAPI(
        title="tokenrouter", version=__version__, description=_DESCRIPTION, lifespan=lifespan
    )
    app.state.served = served
    for endpoint in (chat, completions, models, health, metrics_page, playground):
        app.include_router(endpoint.router)
    app.add_exception_handler(HTTPException, http_error_response)
    app.add_exception_handler(RequestValidationError, validation_error_response)
    # the one added last is the outermost
    app.add_middleware(BodyLimitMiddleware, max_bytes=served.limits.max_body_bytes)
    if served.api_key is not None:
        app.add_middleware(ApiKeyMiddleware, keys=OneKey(served.api_key))
    app.add_middleware(ExchangeMiddleware, metrics=served.metrics)
    return app
