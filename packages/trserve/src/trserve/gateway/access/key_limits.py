"""What may be done with a key: the models it is for, and how much of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trserve.gateway.access.key_lookup import Caller
    from trserve.gateway.access.rate_limit import LimitReached

_NAMES = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "concurrency": "requests at the same time",
}


def check_models(caller: Caller, names: Iterable[str]) -> None:
    """Whether a caller may ask for these models. Raises ApiError (403)."""
    for name in names:
        if not caller.may_use(name):
            message = f"This key is not for the model {name!r}."
            raise ApiError(403, message, param="model", code="model_not_allowed")


def take(caller: Caller, expected: int) -> None:
    """Account for a request; `give_back` must come after it. Raises ApiError (429): not now.

    expected: most tokens that it may come to.
    """
    now = asyncio.get_running_loop().time()
    if (reached := caller.limiter.take(now, expected)) is not None:
        raise _too_much(reached)


def give_back(caller: Caller, expected: int, used: int) -> None:
    """A request is over. expected: as `take` was told; used: tokens that it came to."""
    caller.limiter.release(asyncio.get_running_loop().time(), expected, used)


def _too_much(reached: LimitReached) -> ApiError:
    seconds = max(1, round(reached.retry_s + 0.5))
    message = f"This key's limit of {_NAMES[reached.limit]} is reached."
    return ApiError(429, message, code="rate_limit_exceeded", headers={"retry-after": str(seconds)})
