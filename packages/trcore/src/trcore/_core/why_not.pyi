"""Why an instance may not have a request."""

from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from trcore._core.instance_view import InstanceView

class WhyNot(IntFlag):
    """What stands in the way; 0: nothing does, the instance is a candidate."""

    DRAINING = 1
    UNHEALTHY = 2
    NO_ROOM = 4
    LACKS_CAPABILITY = 8
    MODEL_NOT_ALLOWED = 16
    EXCLUDED = 32
    ABOVE_MAX_USD = 64
    ABOVE_MAX_SECONDS = 128

def why_not(
    view: InstanceView,
    prompt_tokens: NDArray[np.int32],
    max_tokens: NDArray[np.int32],
    *,
    needs: NDArray[np.uint32] | None = None,
    models: NDArray[np.bool_] | None = None,
    instances: NDArray[np.bool_] | None = None,
    usd: NDArray[np.float64] | None = None,
    seconds: NDArray[np.float64] | None = None,
    max_usd: NDArray[np.float64] | None = None,
    max_seconds: NDArray[np.float64] | None = None,
) -> NDArray[np.uint8]:
    """All that keeps each request from each instance: bits of `WhyNot`, [R, I], 0 for a candidate.

    By the rules that `assign` filters with, which are the same code. With its `prices` given, those
    that are 0 here are its candidates, unless it had to give up ceilings.

    Arguments are those of `assign`. usd, seconds [R, I]: of `prices`, NaN where there is none
    to tell; without them no ceiling counts. A closed row may hold anything. ValueError names the
    argument. O(R x I).
    """
