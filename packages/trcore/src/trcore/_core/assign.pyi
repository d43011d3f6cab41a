"""Which instance takes which request of a batch."""

from collections.abc import Sequence
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from trcore._core.instance_view import InstanceView

@final
class AssignRules:
    """What stays the same from batch to batch."""

    def __init__(
        self,
        prior_quality: Sequence[float],
        prior_length: Sequence[float],
        *,
        quality_norm: Literal["none", "minmax"] = "none",
        order: Literal["lpt", "arrival"] = "lpt",
        on_no_candidate: Literal["fail", "cheapest", "fastest"] = "fail",
    ) -> None:
        """``prior_quality`` and ``prior_length`` (tokens, above 0), [M], replace bad predictions.

        quality_norm: ``"minmax"`` maps a request's qualities to 0..1 over its candidates.
        order: ``"lpt"``, longest processing time first: by the predicted length, mean over all
            models, descending, equal ones as they came.
        on_no_candidate: what becomes of a request whose ceilings no instance meets.

        ValueError names the argument.
        """
    @property
    def models(self) -> int:
        """M."""

@final
class Assigned:
    """What `assign` counted."""

    @property
    def unassigned(self) -> int:
        """Requests that no instance takes."""
    @property
    def relaxed(self) -> int:
        """Requests that ``on_no_candidate`` placed above their ceilings."""
    @property
    def quality_priors(self) -> int:
        """Qualities that were NaN or infinite, of R x M."""
    @property
    def length_priors(self) -> int:
        """Lengths that were NaN or infinite, of R x M."""
    @property
    def tpot_priors(self) -> int:
        """Open instances whose TPOT was NaN or infinite."""

def assign(
    view: InstanceView,
    rules: AssignRules,
    weights: Sequence[float] | NDArray[np.float64],
    prompt_tokens: NDArray[np.int32],
    max_tokens: NDArray[np.int32],
    quality: NDArray[np.float32],
    length: NDArray[np.float32],
    chosen: NDArray[np.int32],
    tokens: NDArray[np.int32],
    *,
    needs: NDArray[np.uint32] | None = None,
    models: NDArray[np.bool_] | None = None,
    instances: NDArray[np.bool_] | None = None,
    max_usd: NDArray[np.float64] | None = None,
    max_seconds: NDArray[np.float64] | None = None,
    terms: NDArray[np.float64] | None = None,
    scores: NDArray[np.float64] | None = None,
    commit: bool = True,
) -> Assigned:
    """Give each request of a batch to the instance with the best score, one after another.

    Greedy LPT assignment (RouteBalance, arXiv 2606.17949): S(r, i) = w_qual * Q + w_cost *
    (1 - C / max C) + w_lat * (1 - T / max T), maxima over the request's candidates. Where all are
    equal a term is 1. L, the length predicted for the instance's model, is held between 1 and
    ``max_tokens``. C = prompt * input price + L * output price. T = TPOT * (d / b + L) + (pending
    prefill + prompt) / prefill rate; without d / b while the instance has a free slot and nothing
    waiting. b is ``running``, at least 1; TPOT is held between 1 ms and 1000 s. Equal scores: fewer
    running + waiting, then longest not assigned to, then the first. Each assignment raises its
    instance's ``waiting`` by 1, ``pending_prefill`` by the prompt and ``pending_decode`` by
    ``tokens``, which the next request sees.

    Candidates: healthy, not draining, window holds prompt + ``max_tokens``, all capabilities
    needed, allowed, and within the ceilings; `why_not` names what isn't so. Of those that lack only
    the last, ``on_no_candidate`` may take the cheapest or fastest; scores are then over them all.

    weights: (w_qual, w_cost, w_lat), each 0 or more, sum 1 to within 1e-6; or one row for each
        request, float64 [R, 3].
    prompt_tokens [R]: 0 or more.
    max_tokens [R]: 1 or more.
    quality, length [R, M]: predictions by model; NaN or infinite: the prior.
    needs [R]: capability bits.
    models [R, M], instances [R, I]: False is not allowed.
    max_usd, max_seconds [R]: ceilings on C and T, 0 or more, may be infinite.
    commit: False: leave the view as it is.

    Written:

    chosen [R]: -1: none.
    tokens [R]: what was added to ``pending_decode``, L rounded to whole tokens (half to even), 0:
        none; give it back with `InstanceView.add`.
    terms [R, 6]: the chosen one's quality, cost and latency terms without weights, score, USD,
        seconds; NaN: none.
    scores [R, I]: -inf for those that were no candidates.

    Arrays have exactly these types and are contiguous; those read must not change meanwhile. All is
    checked before anything is written; ValueError names the argument, or the column of an open row.
    O(R x I), without the GIL from some ten microseconds on.
    """

def prices(
    view: InstanceView,
    rules: AssignRules,
    weights: Sequence[float] | NDArray[np.float64],
    prompt_tokens: NDArray[np.int32],
    max_tokens: NDArray[np.int32],
    quality: NDArray[np.float32],
    length: NDArray[np.float32],
    *,
    needs: NDArray[np.uint32] | None = None,
    models: NDArray[np.bool_] | None = None,
    instances: NDArray[np.bool_] | None = None,
    max_usd: NDArray[np.float64] | None = None,
    max_seconds: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """[2, R, I]: C and T of every request at every instance, as `assign` finds them.

    With the same arguments, so that each request sees those that are assigned before it; the view
    is left as it is. NaN where an instance is closed or has no room. ValueError as `assign`.
    """
