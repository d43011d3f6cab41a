"""What a client asks for, in the balancer's terms: models by name, room, capabilities."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import msgspec

from rbalance import NoInstanceError, RouteRequest, WhyNot
from trserve.gateway.config.checks import weights_of
from trserve.gateway.config.config import AUTO
from trserve.gateway.pool.instance import capability_names
from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from rbalance import Weights
    from trserve.gateway.config.config import GatewayConfig
    from trserve.gateway.pool.instance import Instance
    from trserve.gateway.pool.pool import Pool
    from trserve.gateway.request.parsed_body import ParsedBody
    from trserve.gateway.request.received_request import ReceivedRequest

_MOST_KNOWN = 256  # sets of models whose widest window is kept
_LIKELY_ANSWER = 1024  # tokens of room wanted for an answer whose length the client leaves open


class RouteRequests:
    """Resolves names by `config`, which a reload replaces."""

    def __init__(self, config: GatewayConfig, pool: Pool) -> None:
        self._pool = pool
        self._seen = -1
        self.configure(config)

    def configure(self, config: GatewayConfig) -> None:
        """Use these aliases from now on."""
        self._models = [model.name for model in config.models]
        self._aliases = {name: tuple(alias.models) for name, alias in config.aliases.items()}
        self._weights = {
            name: weights_of(alias.weights, f"aliases.{name}.weights")
            for name, alias in config.aliases.items()
            if alias.weights is not None
        }

    @property
    def names(self) -> list[str]:
        """What clients may ask for."""
        return [AUTO, *self._aliases, *self._models]

    def settled(self, received: ReceivedRequest) -> ReceivedRequest:
        """The same, by the pool's models, which stay when a server or an alias goes.

        Raises ApiError (404): no such model.
        """
        body = received.body
        if body.options.models is not None or body.model in self._models:
            return received
        if (named := self._models_of(body.model)) is None:
            return received
        options = msgspec.structs.replace(body.options, models=list(named))
        return replace(received, body=replace(body, options=options))

    def instances(self, name: str) -> list[Instance]:
        """Those that may answer to one of `names`, be they up or not."""
        models = self._models_of(name)
        return [
            each
            for each in self._pool.instances
            if not each.draining and (models is None or each.spec.model in models)
        ]

    def of(self, body: ParsedBody, key: int, not_on: tuple[int, ...] = ()) -> RouteRequest:
        """Raises ApiError (404): no such model.

        The room wanted never exceeds the widest window: how long the prompt really is only the
        instance knows, and its refusal is better than the gateway's guess.
        """
        models = self._allowed(body)
        widest = self._widest(models) or 1
        answer = min(body.max_tokens or _LIKELY_ANSWER, widest)
        prompt = min(body.prompt_tokens, widest)
        if body.max_tokens is None:
            answer = max(1, min(answer, widest - prompt))
        return RouteRequest(
            key=key,
            prompt=body.prompt,
            prompt_tokens=min(prompt, widest - answer),
            max_tokens=answer,
            needs=body.needs,
            models=models,
            max_usd=body.max_usd,
            max_seconds=body.max_seconds,
            not_on=not_on,
            weights=self._weights_for(body),
        )

    def room_elsewhere(self, body: ParsedBody, than: Instance) -> bool:
        """Whether some other instance has more room than one that found the prompt too long."""
        return self._widest(self._allowed(body)) > than.context

    def refusal(self, body: ParsedBody, error: NoInstanceError) -> ApiError:
        """Why nobody may take it, as the client should hear it."""
        allowed = [why for why in error.why.values() if WhyNot.MODEL_NOT_ALLOWED not in why]
        if allowed and all(WhyNot.LACKS_CAPABILITY in why for why in allowed):
            lacking = self._lacking(body)
            message = f"No model of this pool supports: {', '.join(lacking)}."
            return ApiError(400, message, param=lacking[0], code="unsupported")
        ceilings = min(body.max_usd, body.max_seconds) < math.inf
        up = any(not why & (WhyNot.DRAINING | WhyNot.UNHEALTHY) for why in allowed)
        code = "no_candidate" if ceilings and up else "no_instance"
        headers = {"retry-after": "2"}
        message = str(error)
        return ApiError(503, message[:1].upper() + message[1:] + ".", code=code, headers=headers)

    def _lacking(self, body: ParsedBody) -> list[str]:
        """Capabilities that no instance of the allowed models has, or that none has together."""
        models = self._allowed(body)
        known = reduce(
            or_,
            (
                each.capabilities
                for each in self._pool.instances
                if models is None or each.spec.model in models
            ),
            0,
        )
        return capability_names(body.needs & ~known) or capability_names(body.needs)

    def _allowed(self, body: ParsedBody) -> tuple[str, ...] | None:
        if body.options.models is not None:
            for at, name in enumerate(body.options.models):
                if name not in self._models:
                    raise self._unknown(name, f"routebalance.models[{at}]")
            wanted = set(body.options.models)
            return tuple(name for name in self._models if name in wanted)
        return self._models_of(body.model)

    def _models_of(self, name: str) -> tuple[str, ...] | None:
        if name == AUTO:
            return None
        if name in self._aliases:
            return self._aliases[name]
        if name in self._models:
            return (name,)
        upstream = {
            each.spec.model for each in self._pool.instances if each.spec.upstream_model == name
        }
        if not upstream:
            raise self._unknown(name, "model")
        return tuple(model for model in self._models if model in upstream)

    def _weights_for(self, body: ParsedBody) -> Weights | None:
        return body.weights or self._weights.get(body.model)

    def _widest(self, models: tuple[str, ...] | None) -> int:
        """The largest window there is, in tokens.

        Kept until instances come or go, for some sets of models: clients can make up many.
        """
        if self._seen != self._pool.changes:
            self._seen = self._pool.changes
            self._known: dict[tuple[str, ...] | None, int] = {}
        if models in self._known:
            return self._known[models]
        widest = max(
            (
                each.context
                for each in self._pool.instances
                if not each.draining and (models is None or each.spec.model in models)
            ),
            default=0,
        )
        if len(self._known) < _MOST_KNOWN:
            self._known[models] = widest
        return widest

    def _unknown(self, name: str, param: str) -> ApiError:
        message = f"The model {name!r} does not exist. There are: {', '.join(self.names)}."
        return ApiError(404, message, param=param, code="model_not_found")
