"""How many of its requests our gateway had predictions for, by its own metrics."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass

_ASKED = re.compile(rb"^trgateway_balancer_requests_total (\S+)$", re.MULTILINE)
_PREDICTED = re.compile(rb"^trgateway_batch_size_sum (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Predicted:
    """Requests since the start: to be decided, and those that the predictor was done with.

    Under more load than it can take the others are decided by the models' means.
    """

    asked: float
    done: float

    def share_since(self, before: Predicted) -> float:
        """Of those asked since then."""
        return min(1.0, (self.done - before.done) / max(1.0, self.asked - before.asked))


def predicted(port: int) -> Predicted:
    """As it is now."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        page = response.read()
    asked, done = _ASKED.search(page), _PREDICTED.search(page)
    assert asked
    assert done
    return Predicted(float(asked[1]), float(done[1]))
