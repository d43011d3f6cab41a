"""Who retries a request, and where: decided here, paid for from the retry budget."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING

import structlog

from trserve.gateway.request.attempted import FAILURES, RoundOutcome
from trserve.gateway.request.retry_budget import RetryBudget, RetrySettings

if TYPE_CHECKING:
    from trserve.gateway.config import config
    from trserve.gateway.metrics.gateway_metrics import GatewayMetrics
    from trserve.gateway.pool.pool import Pool
    from trserve.gateway.request.attempted import Tries
    from trserve.gateway.request.received_request import ReceivedRequest
    from trserve.gateway.request.route_requests import RouteRequests

_log = structlog.get_logger("trserve.gateway")


class Retry(Enum):
    """What is done with a request after a round."""

    ELSEWHERE = "a retry, on another instance; counted, and paid for"
    HERE = "nobody else may have it: again where it broke off; paid for already"
    ANEW = "decided anew; no retry, for it was sent to nobody or its instance was taken away"
    GIVE_UP = "it ends with what there is"


def retry_decision(
    outcome: RoundOutcome, tries: Tries, most_tries: int, *, room_elsewhere: bool, affordable: bool
) -> Retry:
    """What follows after a round.

    outcome: the round's.
    tries: up to the round, which is among them.
    most_tries: that a request may have.
    room_elsewhere: some other instance takes longer prompts.
    affordable: the budget has a retry left.
    """
    match outcome:
        case RoundOutcome.ANSWERED | RoundOutcome.STOPPED:
            return Retry.GIVE_UP
        case RoundOutcome.NOT_TRIED | RoundOutcome.WITHDRAWN:
            return Retry.ANEW
        case RoundOutcome.NOBODY:
            return Retry.HERE if _may_try_here(tries) else Retry.GIVE_UP
        case RoundOutcome.TOO_LONG if not room_elsewhere:
            return Retry.GIVE_UP
    return Retry.ELSEWHERE if tries.count < most_tries and affordable else Retry.GIVE_UP


def _may_try_here(tries: Tries) -> bool:
    """A kept connection may have died without its server: once more after each such try."""
    broke_off = tries.failed is not None and tries.failed.outcome is RoundOutcome.BROKEN
    return broke_off and bool(tries.not_on) and not tries.here_again


class Retrier:
    """Carries it out: pays for retries, counts them, and says where they may not go."""

    def __init__(self, requests: RouteRequests, pool: Pool, metrics: GatewayMetrics) -> None:
        self._requests = requests
        self._pool = pool
        self._metrics = metrics
        self._time = asyncio.get_running_loop().time
        self.budget = RetryBudget()

    def configure(self, retries: config.Retries) -> None:
        """Try so often from now on."""
        self._most_tries = retries.attempts
        share = retries.budget
        self.budget.change(RetrySettings(share) if share else RetrySettings(0.0, 0.0, 0.0))

    def requested(self) -> None:
        """A request came in, by which retries are earned."""
        self.budget.requested(self._time())

    def again(self, received: ReceivedRequest, tries: Tries) -> Tries | None:
        """After a round: ready for another one, and paid for; None: there is none."""
        last, now = tries.last, self._time()
        assert last is not None
        too_long = last.outcome is RoundOutcome.TOO_LONG
        retry = retry_decision(
            last.outcome,
            tries,
            self._most_tries,
            room_elsewhere=too_long and self._requests.room_elsewhere(received.body, last.instance),
            affordable=last.outcome in FAILURES and self.budget.affords(now),
        )
        match retry:
            case Retry.GIVE_UP:
                return None
            case Retry.ANEW:
                return tries
            case Retry.HERE:
                return tries.here()
        instance = last.instance
        self.budget.spend(now)
        self._metrics.retried(last.reason)
        _log.warning(
            "tried elsewhere", request_id=received.id, instance=instance.name, why=last.reason
        )
        not_on = [instance.number]
        if too_long:  # nor on any with as little room
            room = instance.context
            not_on += [each.number for each in self._pool.instances if each.context <= room]
        return tries.elsewhere(not_on)
