"""What follows from each reason to stop a request."""

from __future__ import annotations

from typing import get_args

import pytest

from trserve.gateway.request.attempted import RoundOutcome
from trserve.gateway.request.stop_reasons import (
    CLIENT_GONE,
    MAY_GO_ON,
    StopReason,
    stopped_error,
    stopped_outcome,
)

REASONS: tuple[StopReason, ...] = get_args(StopReason)


@pytest.mark.parametrize("why", REASONS)
def test_an_answer_that_has_begun_ends_there(why: StopReason) -> None:
    assert stopped_outcome(why, begun=True) is RoundOutcome.STOPPED


@pytest.mark.parametrize(
    ("why", "outcome"),
    [
        ("client left", RoundOutcome.STOPPED),
        ("client stalled", RoundOutcome.STOPPED),
        ("deadline", RoundOutcome.STOPPED),
        ("shutdown", RoundOutcome.STOPPED),
        ("timeout", RoundOutcome.FAILED),
        ("instance removed", RoundOutcome.WITHDRAWN),
        ("instance down", RoundOutcome.WITHDRAWN),
    ],
)
def test_before_it_has_begun_it_may_go_on_elsewhere(why: StopReason, outcome: RoundOutcome) -> None:
    assert stopped_outcome(why, begun=False) is outcome
    assert (why in MAY_GO_ON) == (outcome is not RoundOutcome.STOPPED)


@pytest.mark.parametrize(
    ("why", "status", "code"),
    [
        ("timeout", 504, "upstream_timeout"),
        ("deadline", 504, "timeout"),
        ("instance removed", 502, "instance_removed"),
        ("shutdown", 503, "shutdown"),
    ],
)
def test_who_is_still_there_is_told(why: StopReason, status: int, code: str) -> None:
    error = stopped_error(why, "a")
    assert (error.status_code, error.code) == (status, code)
    assert why not in CLIENT_GONE
