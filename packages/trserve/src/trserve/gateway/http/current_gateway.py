"""What an endpoint needs of its app."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from trserve.gateway.gateway import Gateway


def _gateway(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


CurrentGateway = Annotated[Gateway, Depends(_gateway)]
