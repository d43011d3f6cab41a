"""Two layers, as systems before RouteBalance have it: a model for each request, then an instance.

Also one layer, where the model does not matter: any instance, by load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rbalance.policies.candidates import survivors
from rbalance.policies.dispatch import DRAWING
from rbalance.policies.policy import NO_INSTANCE, Placements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.dispatch import Dispatch
    from rbalance.state.instance_state import InstanceState


@dataclass(frozen=True, slots=True, eq=False)
class ModelChoice:
    """A model for each of R requests: int [R].

    also: by row, models asked at the same time (one of them may be the same again).
    then: by row, models asked afterwards.
    """

    model: NDArray[np.intp]
    also: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    then: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class ModelRouter(Protocol):
    """Chooses models without looking at load."""

    @property
    def fallback(self) -> int:
        """The model for requests whose vectors are wanted and not there in time."""
        ...

    @property
    def uses_vectors(self) -> bool:
        """`RequestBatch.vectors` must be there."""
        ...

    def models(self, batch: RequestBatch) -> ModelChoice:
        """One choice for each request."""
        ...


class ModelFirst:
    """`router` chooses the model, `dispatch` the instance, request after request.

    A model without an instance that may take the request is replaced by whatever `dispatch` takes
    of the rest. router None: all instances are candidates.
    """

    def __init__(self, router: ModelRouter | None, dispatch: Dispatch, seed: int = 0) -> None:
        self._router = router
        self._dispatch = dispatch
        self._random = np.random.default_rng(seed)
        self.uses_vectors = router is not None and router.uses_vectors
        self.draws = dispatch in DRAWING

    def decide(self, batch: RequestBatch, state: InstanceState, now: float) -> Placements:
        """A model for each request by the router, then an instance of it by load."""
        choice = self._choose(batch)
        open_to = survivors(batch, state.view)
        turns = _Turns(state, self._dispatch, self._random)
        instance = np.full(len(batch), NO_INSTANCE, np.int32)
        also: dict[int, tuple[int, ...]] = {}
        for row in range(len(batch)):
            candidates = np.flatnonzero(open_to[row])
            if not len(candidates):
                continue
            if choice is None:
                instance[row] = turns.take(candidates)
                continue
            instance[row] = turns.take(candidates, choice.model[row])
            if row in choice.also:
                also[row] = tuple(turns.take(candidates, model) for model in choice.also[row])
        then = choice.then if choice is not None else {}
        return Placements(instance, also, then, rerouted=turns.rerouted)

    def observe(self, instance: int, tokens: int, seconds: float, now: float) -> None:
        """Nothing is learned."""

    def _choose(self, batch: RequestBatch) -> ModelChoice | None:
        if self._router is None:
            return None
        if self.uses_vectors and batch.vectors is None:
            return ModelChoice(np.full(len(batch), self._router.fallback, np.intp))
        return self._router.models(batch)


class _Turns:
    """Loads and turns of a decision's own, so that its requests see each other."""

    def __init__(
        self, state: InstanceState, dispatch: Dispatch, random: np.random.Generator
    ) -> None:
        view = state.view
        self._model = view.model
        self._load = (view.running + view.waiting).astype(np.float64)
        self._last = view.last_assigned.astype(np.int64)
        self._next = int(self._last.max(initial=0))
        self._dispatch = dispatch
        self._random = random
        self.rerouted = 0

    def take(self, candidates: NDArray[np.intp], model: int | None = None) -> int:
        if model is not None:
            of_model = candidates[self._model[candidates] == model]
            self.rerouted += not len(of_model)
            candidates = of_model if len(of_model) else candidates
        chosen = self._dispatch(candidates, self._load, self._last, self._random)
        self._next += 1
        self._load[chosen] += 1
        self._last[chosen] = self._next
        return chosen
