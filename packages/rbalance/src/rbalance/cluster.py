"""Which instances there are: tiers of alike instances, and the article's cluster as a preset."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rbalance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One model on one kind of machine, `instances` times.

    price_in, price_out: USD for 1M tokens.
    tpot_s: seconds per output token, the tier's prior.
    prefill_rate: prompt tokens a second.
    slots: requests decoded at once.
    kv_tokens: tokens its KV memory holds.
    context: tokens of prompt and answer together.
    capabilities: bits, whose meaning is the caller's affair.
    growth: by what share of tpot_s each further running request lengthens a token's time; only a
        simulation reads it.
    """

    name: str
    model: str
    instances: int
    price_in: float
    price_out: float
    tpot_s: float
    prefill_rate: float
    slots: int = 64
    kv_tokens: int = 100_000
    context: int = 32_768
    capabilities: int = 0
    growth: float = 0.01

    def __post_init__(self) -> None:
        """Raises ConfigError: a number that cannot be."""
        for field, least in (
            ("instances", 0),
            ("price_in", 0),
            ("price_out", 0),
            ("growth", 0),
            ("slots", 1),
            ("kv_tokens", 1),
            ("context", 1),
        ):
            if not least <= (value := getattr(self, field)) < math.inf:
                raise ConfigError(
                    f"tiers.{self.name}.{field}", f"must be {least} or more, not {value}"
                )
        for field in ("tpot_s", "prefill_rate"):
            if not 0 < (value := getattr(self, field)) < math.inf:
                raise ConfigError(f"tiers.{self.name}.{field}", f"must be above 0, not {value}")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Tiers in order; instances are numbered through them, models by first occurrence.

    There may be no instance yet: they can be added to an InstanceState later.
    """

    tiers: tuple[Tier, ...]

    def __post_init__(self) -> None:
        """Raises ConfigError: no tier, or a tier's name twice."""
        if not self.tiers:
            raise ConfigError("tiers", "there must be one")
        names = [tier.name for tier in self.tiers]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError("tiers", f"{min(twice)!r} occurs twice")

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names, each once."""
        return tuple(dict.fromkeys(tier.model for tier in self.tiers))

    @property
    def tier_of(self) -> NDArray[np.intp]:
        """Intp [I]: each instance's tier."""
        return np.repeat(np.arange(len(self.tiers)), [tier.instances for tier in self.tiers])

    @property
    def instances(self) -> tuple[Tier, ...]:
        """Each instance's tier itself."""
        return tuple(self.tiers[tier] for tier in self.tier_of)

    @property
    def tpot_s(self) -> NDArray[np.float64]:
        """float64 [I]: the priors, seconds per output token."""
        return np.array([tier.tpot_s for tier in self.instances])


ARTICLE_MODELS = ("Qwen2.5-3B", "Qwen2.5-7B", "Qwen2.5-14B", "Qwen2.5-72B")


def article_cluster(models: Sequence[str] = ARTICLE_MODELS) -> Cluster:
    """The article's 13 instances on 28 GPUs: 3 × 3B, 5 × 7B, 3 × 14B and 2 × 72B.

    models: whose labels stand for the four tiers, cheapest first. Prices and times per token are
    the artefact's. It gives neither prefill rates nor KV memory nor how times grow: those are
    derived here from the GPUs (half of their dense bfloat16 or float16 FLOPS for prefill; 90 % of
    their memory less the weights for KV), and `slots` and `growth` are assumptions.

    Raises ConfigError: not four names.
    """
    if len(models) != len(ARTICLE_MODELS):
        raise ConfigError("models", f"the article's cluster has four, not {len(models)}")
    small, medium, large, huge = models
    return Cluster(
        (
            Tier(
                name=f"{small}/a30",
                model=small,
                instances=3,
                price_in=0.06,
                price_out=0.06,
                tpot_s=0.0123,
                prefill_rate=13_000,
                kv_tokens=380_000,
            ),
            Tier(
                name=f"{medium}/a30",
                model=medium,
                instances=5,
                price_in=0.07,
                price_out=0.07,
                tpot_s=0.0206,
                prefill_rate=5_500,
                kv_tokens=110_000,
            ),
            Tier(
                name=f"{large}/v100-tp4",
                model=large,
                instances=3,
                price_in=0.15,
                price_out=0.15,
                tpot_s=0.0184,
                prefill_rate=7_500,
                kv_tokens=150_000,
            ),
            Tier(
                name=f"{huge}/a100-tp4",
                model=huge,
                instances=2,
                price_in=0.38,
                price_out=0.40,
                tpot_s=0.0474,
                prefill_rate=4_300,
                kv_tokens=430_000,
            ),
        )
    )


def scaled(cluster: Cluster, instances: int) -> Cluster:
    """The same mix of tiers with `instances` in all, by largest remainders; none disappears.

    Raises ConfigError: fewer instances than tiers, or no mix at all, for there is no instance.
    """
    if not cluster.instances:
        raise ConfigError("tiers", "there is no instance")
    if instances < len(cluster.tiers):
        raise ConfigError("instances", f"{instances} are fewer than the {len(cluster.tiers)} tiers")
    now = np.array([tier.instances for tier in cluster.tiers])
    exact = now * (instances / now.sum())
    counts = np.maximum(np.floor(exact), 1).astype(int)
    for tier in np.argsort(counts - exact, kind="stable")[: max(0, instances - counts.sum())]:
        counts[tier] += 1
    while counts.sum() > instances:
        counts[counts.argmax()] -= 1
    return Cluster(
        tuple(
            replace(tier, instances=int(count))
            for tier, count in zip(cluster.tiers, counts, strict=True)
        )
    )
