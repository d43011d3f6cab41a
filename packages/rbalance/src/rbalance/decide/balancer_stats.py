"""What a balancer counts, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BalancerStats:
    """Counters since the start.

    requests: asked.
    batches: decided.
    withdrawn: given up by the caller before a decision.
    predictor_late: batches decided by the prior, as predictions took too long.
    predictor_failed: batches decided by the prior, as the predictor raised an error.
    unusable_predictions: single ones that were not finite.
    rerouted: whose policy chose a model without open instances.
    relaxed: placed above their ceilings, as the rules allow.
    no_instance: that nothing could take.
    bad_requests: that made the policy fail, alone.
    last_failure: the latest error of a predictor or a policy.
    stale_instances: no counter, but how many had no fresh telemetry at the last decision.
    """

    requests: int = 0
    batches: int = 0
    withdrawn: int = 0
    predictor_late: int = 0
    predictor_failed: int = 0
    unusable_predictions: int = 0
    rerouted: int = 0
    relaxed: int = 0
    no_instance: int = 0
    bad_requests: int = 0
    last_failure: str = ""
    stale_instances: int = 0
