"""What routers make of an engine's outputs, against what they make of one row alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.trsched.random_routers import random_checkpoint
from tests.support.trsched.seen_outputs import Seen
from trrouters import Need, RouterContext, RouteResult, create_router
from trrouters.algorithms.r_stitch import normalized_entropy

SCORE_TOLERANCE = 1e-5
"""torch multiplies matrices of other heights by other kernels, which add in another order. The
entropy of R-Stitch has no matrix in it and is the same bit for bit."""


class Judge:
    """A router at model 0 whose threshold is the median of the scores of `sample`."""

    def __init__(self, algorithm: str, folder: Path, sample: Sequence[Seen]) -> None:
        self.algorithm = algorithm
        name, settings = "tau", {}
        if algorithm != "r_stitch":
            name, settings = "threshold", {"checkpoint": random_checkpoint(algorithm, folder)}
        context = RouterContext(0, 2, 49152)
        self._router: Any = create_router(algorithm, context, settings)
        self._known: dict[int, float] = {}
        scores = [self.alone(seen) for seen in sample]
        assert np.std(scores) > 100 * SCORE_TOLERANCE
        self.threshold = float(np.median(scores))
        self._router = create_router(algorithm, context, {**settings, name: self.threshold})
        self.needs: frozenset[Need] = self._router.needs

    def alone(self, seen: Seen) -> float:
        """The score of a row by itself."""
        if id(seen) not in self._known:
            self._known[id(seen)] = float(self.scores(seen.alone())[0])
        return self._known[id(seen)]

    def scores(self, result: RouteResult) -> NDArray[np.float32]:
        if self.algorithm == "r_stitch":
            logits = result.logits_output.next_token_logits
            assert logits is not None
            scores = normalized_entropy(logits)
        else:
            scores = self._router.scores(result)
        numbers: NDArray[np.float32] = scores.numpy()
        return numbers

    def check(self, result: RouteResult, expected: Sequence[Seen]) -> None:
        """Scores and decisions of a step are those of its rows by themselves."""
        alone = np.array([self.alone(seen) for seen in expected])
        tolerance = 0.0 if self.algorithm == "r_stitch" else SCORE_TOLERANCE
        np.testing.assert_allclose(self.scores(result), alone, rtol=0, atol=tolerance)
        clear = np.abs(alone - self.threshold) > tolerance
        leaves = alone < self.threshold if self.algorithm == "citer" else alone > self.threshold
        decisions = np.asarray(self._router.route(result))
        assert np.array_equal(decisions[clear], leaves[clear].astype(int))
