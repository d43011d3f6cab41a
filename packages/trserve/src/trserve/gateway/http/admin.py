"""`/admin`: instances come and go, the configuration is read again; with a key of its own."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel

from trsched.errors import ConfigError
from trsched.plan.config import converted
from trserve.gateway.config.config import InstanceSpec
from trserve.gateway.gateway import Gateway
from trserve.gateway.http.current_gateway import CurrentGateway
from trserve.gateway.pool.instance import Instance
from trserve.gateway.reload import reload
from trserve.http.errors import ApiError
from trserve.http.middleware.api_key import bearer
from trserve.openai.documented_errors import documented_errors


def _authorised(request: Request, gateway: CurrentGateway) -> None:
    if not gateway.keys.admins:
        message = "Nobody may do this here: start the gateway with TRSERVE_ADMIN_KEY."
        raise ApiError(403, message, code="admin_disabled")
    bearer(request.headers, gateway.keys.admins)


router = APIRouter(prefix="/admin", tags=["admin"], dependencies=[Depends(_authorised)])

_ERRORS = (401, 403)


class InstanceReport(BaseModel):
    """An instance as it is.

    name: the entry's.
    model: the one that it serves.
    url: of its server.
    state: whether it gets requests.
    why: what the last health check said, where it said something.
    breaker: its circuit breaker's state.
    in_flight: this gateway's requests there.
    running: requests that run there, this gateway's and others', as far as known.
    waiting: requests that wait there, this gateway's and others', as far as known.
    pending_tokens: expected still to be written there.
    telemetry: the kind of server that the last reading was of.
    telemetry_age_s: since that reading; null before the first one.
    telemetry_failure: why there is no reading.
    """

    name: str
    model: str
    url: str
    state: Literal["up", "down", "draining"]
    why: str
    breaker: Literal["closed", "open", "half-open"]
    in_flight: int
    running: int
    waiting: int
    pending_tokens: float
    telemetry: str
    telemetry_age_s: float | None
    telemetry_failure: str


class InstanceReports(BaseModel):
    """All of them."""

    instances: list[InstanceReport]


@router.get("/instances", summary="List the instances", responses=documented_errors(*_ERRORS))
async def list_instances(gateway: CurrentGateway) -> InstanceReports:
    """In the order they came."""
    return InstanceReports(instances=[report(gateway, each) for each in gateway.pool.instances])


@router.post(
    "/instances",
    summary="Add an instance",
    status_code=201,
    responses=documented_errors(400, *_ERRORS),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["name", "model"],
                        "properties": {
                            "name": {"type": "string"},
                            "model": {"type": "string"},
                            "url": {"type": "string"},
                            "concurrency": {"type": "integer", "minimum": 1},
                        },
                    }
                }
            },
        }
    },
)
async def add_instance(request: Request, gateway: CurrentGateway) -> InstanceReport:
    """An entry as in the configuration's `instances`; its model must be one of `models`."""
    try:
        data: Any = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = "The request body is not valid JSON in UTF-8."
        raise ApiError(400, message, code="invalid_json") from error
    try:
        spec = converted(data, InstanceSpec, "body")
        known = {each.api_key_env for each in gateway.deployment.gateway.instances}
        if spec.api_key_env not in {None, *known}:  # else any variable could be read from afar
            raise ConfigError("body.api_key_env", "is none that the configuration file uses")
        instance = gateway.add(spec, "body")
    except ConfigError as error:
        field = error.field.removeprefix("body.")
        raise ApiError(
            400, f"'{field}': {error.message}.", param=field, code="invalid_value"
        ) from error
    return report(gateway, instance)


@router.delete(
    "/instances/{name:path}",
    summary="Drain an instance, then remove it",
    responses=documented_errors(*_ERRORS, 404),
)
async def remove_instance(
    name: str,
    gateway: CurrentGateway,
    mode: Annotated[
        Literal["drain", "now"],
        Query(description="`now`: what it has is tried elsewhere, or ends with an error"),
    ] = "drain",
) -> InstanceReport:
    """Answers at once; a draining instance is listed until its last request has ended."""
    instance = gateway.pool.named(name)
    if instance is None:
        raise ApiError(404, f"There is no instance {name!r}.", param="name", code="not_found")
    if mode == "now":
        told = report(gateway, instance)
        gateway.remove(instance)
        return told
    gateway.retire(instance)
    return report(gateway, instance)


class Reloaded(BaseModel):
    """What a reload changed."""

    changed: list[str]


@router.post(
    "/reload",
    summary="Read the configuration file again",
    responses=documented_errors(400, *_ERRORS),
)
async def reload_configuration(gateway: CurrentGateway) -> Reloaded:
    """Instances, aliases, weights, timeouts, retries and keys follow the file; also on SIGHUP.

    What only a new start can change is refused, and then nothing changes.
    """
    try:
        return Reloaded(changed=reload(gateway))
    except ConfigError as error:
        raise ApiError(400, str(error), param=error.field, code="invalid_configuration") from error


def report(gateway: Gateway, instance: Instance) -> InstanceReport:
    """How an instance is."""
    view, at = gateway.state.view, instance.number
    now = asyncio.get_running_loop().time()
    gateway.state.refresh(now)  # decisions do, but there may be none for long
    age = float(gateway.state.telemetry.age(now)[at])
    up = bool(view.healthy[at])
    return InstanceReport(
        name=instance.name,
        model=instance.spec.model,
        url=instance.url,
        state="draining" if instance.draining else "up" if up else "down",
        why=instance.why,
        breaker=instance.breaker.state(now),
        in_flight=len(instance.requests),
        running=int(view.running[at]),
        waiting=int(view.waiting[at]),
        pending_tokens=float(view.pending_decode[at]),
        telemetry=instance.telemetry,
        telemetry_age_s=None if age == float("inf") else round(age, 3),
        telemetry_failure=instance.telemetry_failure,
    )
