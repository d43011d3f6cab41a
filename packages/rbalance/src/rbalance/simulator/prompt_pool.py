"""Labelled prompts made ready for many simulations: split, embedded and predicted once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ArtefactError, ConfigError
from rbalance.labels.embedded_labels import Labelled
from rbalance.predict.predictions import Predictions, Prior
from rbalance.simulator.workload import MAX_TOKENS, SimulatedWorkload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.cluster import Cluster

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class PromptPool:
    """N held-out prompts with predictions, and the K training prompts that these came from.

    models: M names, columns of everything.
    prompt: int32 [N], tokens.
    length: float32 [N, M], true output tokens.
    quality: float32 [N, M], true scores.
    vectors: float32 [N, D].
    train_prompt, train_length, train_quality, train_vectors: the same of the training prompts.
    train_category: their categories.
    """

    models: tuple[str, ...]
    prompt: NDArray[np.int32]
    length: NDArray[np.float32]
    quality: NDArray[np.float32]
    predictions: Predictions
    prior: Prior
    vectors: NDArray[np.float32]
    train_prompt: NDArray[np.int32]
    train_length: NDArray[np.float32]
    train_quality: NDArray[np.float32]
    train_vectors: NDArray[np.float32]
    train_category: tuple[str, ...]

    def workload(
        self, arrival: NDArray[np.float64], cluster: Cluster, seed: int = 0
    ) -> SimulatedWorkload:
        """A request for each arrival: prompts in random order, again from the start when used up.

        Raises ConfigError: the cluster has a model without labels.
        """
        columns = self.columns(cluster)
        random = np.random.default_rng(seed)
        rounds = -(-len(arrival) // len(self.prompt))
        orders = [random.permutation(len(self.prompt)) for _ in range(rounds)]
        row = np.concatenate(orders)[: len(arrival)] if orders else np.empty(0, np.intp)
        pick = np.ix_(row, columns)
        known = self.predictions
        return SimulatedWorkload(
            arrival=arrival,
            prompt=self.prompt[row],
            length=np.clip(np.rint(self.length[pick]), 1, MAX_TOKENS).astype(np.int32),
            quality=self.quality[pick],
            predictions=Predictions(
                known.quality[pick], known.length[pick], known.from_prior[pick]
            ),
            prior=self.prior_of(cluster),
            vectors=self.vectors[row],
            row=row,
        )

    def labelled(self, cluster: Cluster) -> Labelled:
        """The training prompts, with what each model's answer cost at the cluster's prices."""
        columns = self.columns(cluster)
        tiers = {tier.model: tier for tier in reversed(cluster.tiers)}
        priced = [tiers[model] for model in cluster.models]
        read = np.array([tier.price_in for tier in priced])
        written = np.array([tier.price_out for tier in priced])
        cost = (self.train_prompt[:, None] * read + self.train_length[:, columns] * written) / 1e6
        return Labelled(
            cluster.models,
            self.train_vectors,
            self.train_quality[:, columns],
            cost,
            self.train_category,
        )

    def prior_of(self, cluster: Cluster) -> Prior:
        """The prior, columns in the cluster's order."""
        columns = self.columns(cluster)
        return Prior(cluster.models, self.prior.quality[columns], self.prior.length[columns])

    def columns(self, cluster: Cluster) -> NDArray[np.intp]:
        """Intp [M of the cluster]: where its models' labels are. Raises ConfigError."""
        if missing := [model for model in cluster.models if model not in self.models]:
            raise ConfigError("models", f"no labels of {missing[0]!r}")
        return np.array([self.models.index(model) for model in cluster.models], np.intp)

    def save(self, path: Path) -> None:
        """Write it to one .npz file."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        np.savez(
            path,
            version=_VERSION,
            models=np.array(self.models),
            train_category=np.array(self.train_category),
            predicted_quality=self.predictions.quality,
            predicted_length=self.predictions.length,
            predicted_from_prior=self.predictions.from_prior,
            prior_quality=self.prior.quality,
            prior_length=self.prior.length,
            **arrays,
        )

    @classmethod
    def load(cls, path: Path) -> PromptPool:
        """Read what `save` wrote. Raises ArtefactError for anything else; OSError."""
        try:
            with np.load(path, allow_pickle=False) as kept:
                if kept["version"] != _VERSION:
                    raise ArtefactError(f"{path}: written by another version; make it anew")
                models = tuple(map(str, kept["models"]))
                return cls(
                    models=models,
                    predictions=Predictions(
                        kept["predicted_quality"],
                        kept["predicted_length"],
                        kept["predicted_from_prior"],
                    ),
                    prior=Prior(models, kept["prior_quality"], kept["prior_length"]),
                    train_category=tuple(map(str, kept["train_category"])),
                    **{name: kept[name] for name in _ARRAYS},
                )
        except (KeyError, ValueError, EOFError) as error:
            raise ArtefactError(f"{path}: no prompt pool: {error}") from error


_ARRAYS = (
    "prompt",
    "length",
    "quality",
    "vectors",
    "train_prompt",
    "train_length",
    "train_quality",
    "train_vectors",
)
