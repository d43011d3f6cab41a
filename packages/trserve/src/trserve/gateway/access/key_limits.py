"""What may be done with a key: the models it is for, and how much of them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trserve.http.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trserve.gateway.access.key_lookup import Caller
    from trserve.gateway.access.rate_limit import LimitReached

_NAMES = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "concurrency": "requests at the same time",
}


def check_models(caller: Caller | None, names: Iterable[str]) -> None:
    """Whether a caller may ask for these models. Raises ApiError (403).

    caller: None: no key was wanted, so everybody may.
    """
    if caller is None or caller.models is None:
        return
    for name in names:
        if not caller.may_use(name):
            message = f"This key is not for the model {name!r}."
            raise ApiError(403, message, param="model", code="model_not_allowed")


@contextmanager
def within_limits(caller: Caller | None, expected: int, used: Callable[[], int]) -> Iterator[None]:
    """While a request is under way. Raises ApiError (429): a limit of the key's is reached.

    expected: most tokens that it may come to. used: asked at the end, how many it came to.
    """
    if caller is None:
        yield
        return
    loop = asyncio.get_running_loop()
    reached = caller.limiter.take(loop.time(), expected)
    if reached is not None:
        raise _too_much(reached)
    try:
        yield
    finally:
        caller.limiter.release(loop.time(), expected, used())


def _too_much(reached: LimitReached) -> ApiError:
    seconds = max(1, round(reached.retry_s + 0.5))
    message = f"This key's limit of {_NAMES[reached.limit]} is reached."
    return ApiError(429, message, code="rate_limit_exceeded", headers={"retry-after": str(seconds)})
