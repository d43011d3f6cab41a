"""Requests on their way through a simulation: what each has been sent to, and what counts of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rbalance.tpot.record import TpotRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.cluster import Cluster
    from rbalance.simulator.outcome import SimulationOutcome
    from rbalance.simulator.workload import SimulatedWorkload
    from rbalance.state.instance_state import InstanceState


@dataclass(slots=True)
class _Open:
    """A request with answers under way.

    then: models still to be asked.
    heard: who answered.
    """

    then: list[int]
    lengths: NDArray[np.float32]
    awaited: int
    heard: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Sent:
    """One answer under way."""

    row: int
    instance: int
    tokens: int
    predicted: float
    state: NDArray[np.float32] | None
    first_at: float = 0.0


class Sending(NamedTuple):
    """What an instance gets: a key, tokens of the prompt, of the answer, and as expected."""

    key: int
    prompt: int
    tokens: int
    predicted: float


class Answers:
    """Writes what it learns into a SimulationOutcome.

    Of answers at the same time the majority counts, each weighted by its model's predicted quality
    and right if its label is at least 1/2; of answers in turn, the last. Labels hold one answer of
    each model, so asking one several times (best-of-n) costs time and money and cannot show a gain.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: SimulatedWorkload,
        outcome: SimulationOutcome,
        record_tpot: bool,
    ) -> None:
        self._tiers = cluster.instances
        self._model = [cluster.models.index(tier.model) for tier in self._tiers]
        self._workload = workload
        self._outcome = outcome
        self._record_tpot = record_tpot
        self._open: dict[int, _Open] = {}
        self._sent: dict[int, _Sent] = {}
        self._keys = 0

    def open(
        self,
        row: int,
        instances: tuple[int, ...],
        then: tuple[int, ...],
        lengths: NDArray[np.float32],
    ) -> None:
        """A request goes to some instances at once, then to models in turn.

        lengths: float32 [M], expected of each model's answer.
        """
        self._open[row] = _Open(list(then), lengths, len(instances))

    def send(self, now: float, state: InstanceState, row: int, instance: int) -> Sending:
        """One of its answers begins."""
        self._keys += 1
        model = self._model[instance]
        tokens = int(self._workload.length[row, model])
        predicted = float(self._open[row].lengths[model])
        features = state.features(now)[instance] if self._record_tpot else None
        self._sent[self._keys] = _Sent(row, instance, tokens, predicted, features)
        if np.isnan(self._outcome.dispatched[row]):
            self._outcome.dispatched[row] = now
        return Sending(self._keys, int(self._workload.prompt[row]), tokens, predicted)

    def row_of(self, key: int) -> int:
        """The request that an answer is for."""
        return self._sent[key].row

    def tokens_of(self, key: int) -> int:
        """The length of an answer under way."""
        return self._sent[key].tokens

    def first_token(self, key: int, at: float) -> None:
        """An answer's first token came."""
        sent = self._sent[key]
        sent.first_at = at
        if np.isnan(self._outcome.first[sent.row]):
            self._outcome.first[sent.row] = at

    def last_token(self, key: int, at: float, state: InstanceState) -> int | None:
        """An answer ended; an instance to ask next, if the request has a next model.

        The least loaded open instance of that model; without one the answers so far have to do.
        """
        sent = self._sent.pop(key)
        self._charge(sent)
        self._keep_row(sent, at)
        request = self._open[sent.row]
        request.heard.append((self._model[sent.instance], sent.instance))
        request.awaited -= 1
        if request.awaited:
            return None
        while request.then:
            view = state.view
            of_model = (view.model == request.then.pop(0)) & view.healthy & ~view.draining
            candidates = np.flatnonzero(of_model)
            if len(candidates):
                load = (view.running + view.waiting)[candidates]
                request.heard.clear()
                request.awaited = 1
                return int(candidates[load.argmin()])
        self._close(sent.row, request, at)
        return None

    def ended(self, row: int) -> bool:
        """Its last answer has come."""
        return row not in self._open

    def _charge(self, sent: _Sent) -> None:
        tier = self._tiers[sent.instance]
        prompt = int(self._workload.prompt[sent.row])
        usd = (prompt * tier.price_in + sent.tokens * tier.price_out) / 1e6
        self._outcome.usd[sent.row] += usd

    def _keep_row(self, sent: _Sent, at: float) -> None:
        if sent.state is None or sent.tokens < 2:
            return
        self._outcome.tpot_rows.append(
            TpotRecord.of(
                self._tiers[sent.instance].name,
                sent.state,
                float(self._workload.prompt[sent.row]),
                sent.predicted,
                (at - sent.first_at) / (sent.tokens - 1),
            )
        )

    def _close(self, row: int, request: _Open, at: float) -> None:
        del self._open[row]
        label, weight = self._workload.quality[row], self._workload.predictions.quality[row]
        models = [model for model, _ in request.heard]
        if len(set(models)) == 1:
            quality = float(label[models[0]])
        else:
            right = float(weight[[model for model in models if label[model] >= 0.5]].sum())
            quality = float(right > float(weight[models].sum()) / 2)
        self._outcome.finished[row] = at
        self._outcome.quality[row] = quality
        self._outcome.model[row], self._outcome.instance[row] = request.heard[-1]
