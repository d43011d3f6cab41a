"""Whose keys open which doors, and how much each caller may do."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from starlette.types import Scope

from trserve.gateway.access.api_keys import ApiKeys, Caller
from trserve.gateway.access.rate_limit import Limits, RateLimiter
from trserve.http.errors import ApiError
from trserve.http.middleware.api_key import CALLER_KEY

if TYPE_CHECKING:
    from trserve.gateway.access.rate_limit import Refusal
    from trserve.gateway.request.ask import Ask
    from trserve.settings.server_settings import GatewaySettings

_NAMES = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "concurrency": "requests at the same time",
}


class ClientKeys:
    """The server's one key, the keys file, or neither: then everybody may come in."""

    def __init__(self, key: str | None, admin_key: str | None, file: ApiKeys | None) -> None:
        self._single = None if key is None else key.encode()
        self._file = file
        self._anybody = Caller("api_key", None, False, RateLimiter(Limits()))
        self.admins = AdminKeys(admin_key, file)

    @classmethod
    def of(cls, server: GatewaySettings) -> Self:
        """As configured. Raises ConfigError: the keys file is wrong."""
        key, admin = server.api_key, server.admin_key
        return cls(
            None if key is None else key.get_secret_value(),
            None if admin is None else admin.get_secret_value(),
            None if server.keys_file is None else ApiKeys(server.keys_file),
        )

    @property
    def wanted(self) -> bool:
        """Clients must have a key."""
        return self._single is not None or self._file is not None

    def find(self, key: bytes) -> Caller | None:
        """Whose key this is; None: nobody's."""
        if self._single is not None and hmac.compare_digest(key, self._single):
            return self._anybody
        return None if self._file is None else self._file.find(key)

    def reload(self) -> bool:
        """Read the file again, if there is one; whether it has changed.

        Raises ConfigError, and then nothing has.
        """
        return self._file is not None and self._file.reload()

    def check_models(self, scope: Scope, ask: Ask) -> Caller | None:
        """Whose limits the request is under; None: nobody's. Raises ApiError: not with this key."""
        caller: Caller | None = scope.get(CALLER_KEY)
        if caller is None or caller is self._anybody:
            return None
        for name in (ask.model, *(ask.options.models or ())):
            if not caller.may_use(name):
                message = f"This key is not for the model {name!r}."
                raise ApiError(403, message, param="model", code="model_not_allowed")
        return caller

    @contextmanager
    def admitted(self, scope: Scope, ask: Ask, used: Callable[[], int]) -> Iterator[None]:
        """While a request is under way. Raises ApiError: not with this key, or not now.

        used: asked at the end, how many tokens it came to.
        """
        caller = self.check_models(scope, ask)
        if caller is None:
            yield
            return
        loop = asyncio.get_running_loop()
        expected = ask.prompt_tokens + (ask.max_tokens or 0)
        refusal = caller.limiter.take(loop.time(), expected)
        if refusal is not None:
            raise _too_much(refusal)
        try:
            yield
        finally:
            caller.limiter.release(loop.time(), expected, used())


class AdminKeys:
    """Those of the administrators: the server's admin key, and keys of the file that say so."""

    def __init__(self, key: str | None, file: ApiKeys | None) -> None:
        self._key = None if key is None else key.encode()
        self._file = file

    def __bool__(self) -> bool:
        return self._key is not None or (self._file is not None and self._file.has_admin)

    def find(self, key: bytes) -> object | None:
        """None: no administrator's."""
        if self._key is not None and hmac.compare_digest(key, self._key):
            return "admin"
        caller = None if self._file is None else self._file.find(key)
        return caller if caller is not None and caller.admin else None


def _too_much(refusal: Refusal) -> ApiError:
    seconds = max(1, round(refusal.retry_s + 0.5))
    message = f"This key's limit of {_NAMES[refusal.limit]} is reached."
    return ApiError(429, message, code="rate_limit_exceeded", headers={"retry-after": str(seconds)})
