"""One entry of the pool: a server, how it is spoken to, and whether it may get requests."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from trsched.errors import ConfigError
from trserve.gateway.config.config import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rbalance import Tier
    from trserve.gateway.config.config import InstanceSpec, ModelSpec
    from trserve.gateway.pool.circuit_breaker import CircuitBreaker

_NOTHING = msgspec.Raw(b"{}")


class RequestThere(Protocol):
    """A request that waits for an instance, or has been sent to it."""

    @property
    def phase(self) -> str:
        """`waiting` while it waits for its turn."""

    def stop(self, why: Literal["instance removed", "instance down"]) -> None:
        """The instance cannot serve it any more."""


class Instance:
    """Made by the pool.

    number: the balancer's.
    spec: the configuration's entry.
    name: the entry's.
    url: without a slash at its end.
    headers: sent with every request.
    model_json: its server's name of the model, as JSON.
    extension: fields for the request's `tokenrouter` object, of a group at a threshold.
    breaker: keeps requests away while it fails.
    capabilities: bits of CAPABILITIES.
    context: tokens of prompt and answer together.
    permits: taken for each request sent; None without a limit.
    requests: those that wait for it or have been sent to it.
    checked: what the last health check said.
    why: and why.
    telemetry: the kind of server that its last reading was of.
    telemetry_failure: why there is no reading.
    draining: it gets nothing new.
    on_empty: called when the last of what a draining one has is gone.
    """

    def __init__(
        self,
        number: int,
        spec: InstanceSpec,
        url: str,
        key: str | None,
        breaker: CircuitBreaker,
        capabilities: int,
        context: int,
    ) -> None:
        self.number = number
        self.spec = spec
        self.name = spec.name
        self.url = url
        self.headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.model_json = msgspec.json.encode(spec.upstream_model or spec.group or spec.model)
        given = {"threshold": spec.threshold, "only": spec.only}
        self.extension = {
            name: msgspec.Raw(msgspec.json.encode(value))
            for name, value in given.items()
            if value is not None
        }
        self.breaker = breaker
        self.capabilities = capabilities
        self.context = context
        limit = spec.concurrency
        self.permits = None if limit is None else asyncio.Semaphore(limit)
        self.requests: set[RequestThere] = set()
        self.checked = True
        self.why = ""
        self.telemetry = ""
        self.telemetry_failure = ""
        self.draining = False
        self.on_empty: Callable[[], None] | None = None

    def body(self, fields: dict[str, msgspec.Raw]) -> bytes:
        """A request's body for this server: the client's, byte by byte, with the model renamed."""
        fields = {**fields, "model": msgspec.Raw(self.model_json)}
        if self.extension:
            given = fields.get("tokenrouter", _NOTHING)
            own = msgspec.json.decode(given, type=dict[str, msgspec.Raw])
            # a client may ask for another threshold, but not for another model than this entry's
            own.pop("only", None)
            if "only" in self.extension:
                own.pop("threshold", None)
            fields["tokenrouter"] = msgspec.Raw(msgspec.json.encode({**self.extension, **own}))
        return msgspec.json.encode(fields)

    @asynccontextmanager
    async def turn(self, request: RequestThere) -> AsyncIterator[None]:
        """Until it takes one more, and while it has this one."""
        self.requests.add(request)
        try:
            if self.permits is None:
                yield
                return
            async with self.permits:
                yield
        finally:
            self.requests.discard(request)
            if self.draining and not self.requests and self.on_empty is not None:
                self.on_empty()


def key_of(spec: InstanceSpec, field: str) -> str | None:
    """The key that its server wants. Raises ConfigError: the variable is not set."""
    if spec.api_key_env is None:
        return None
    key = os.environ.get(spec.api_key_env)
    if not key:
        raise ConfigError(f"{field}.api_key_env", f"the variable {spec.api_key_env} is not set")
    return key


def tier_of(spec: InstanceSpec, model: ModelSpec) -> Tier:
    """The instance for the balancer: the model's figures where it has none of its own."""
    from rbalance import Tier

    return Tier(
        name=spec.tier or model.name,
        model=model.name,
        instances=1,
        price_in=model.price_in,
        price_out=model.price_out,
        tpot_s=spec.tpot_s or model.tpot_s,
        prefill_rate=model.prefill_rate,
        slots=spec.slots or model.slots,
        context=spec.context or model.context,
        capabilities=capability_bits(model.capabilities),
    )


def capability_bits(names: Sequence[str]) -> int:
    """Bit i for CAPABILITIES[i]."""
    return sum(1 << CAPABILITIES.index(name) for name in set(names))


def capability_names(bits: int) -> list[str]:
    """The other way round."""
    return [name for bit, name in enumerate(CAPABILITIES) if bits >> bit & 1]
