"""How tokens are routed wherever a request lands, among some instances of the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trserve.gateway.config.config import InstanceSpec
    from trserve.gateway.pool.local_groups import GroupServer
    from trserve.openai.schemas.model_list import Routing


def common_routing(
    specs: Sequence[InstanceSpec], groups: Mapping[str, GroupServer]
) -> Routing | None:
    """Of the entries that a name stands for; None: they have none in common.

    All must belong to local groups with the same models and router: a server by URL may refuse
    a request with a threshold. Some must have no `only`, or a threshold would never be used. Its
    value is None where it differs between those.
    """
    names = [spec.group for spec in specs if spec.group is not None]
    if len(names) < len(specs) or all(spec.only is not None for spec in specs):
        return None
    routings = [
        groups[name].routing
        if spec.threshold is None
        else _with_value(groups[name].routing, spec.threshold)
        for name, spec in zip(names, specs, strict=True)
    ]
    alike = _with_value(routings[0], None)
    if any(_with_value(each, None) != alike for each in routings):
        return None
    routed = [each for each, spec in zip(routings, specs, strict=True) if spec.only is None]
    return routed[0] if all(each == routed[0] for each in routed) else alike


def _with_value(routing: Routing, value: float | None) -> Routing:
    if routing.threshold is None:
        return routing
    threshold = routing.threshold.model_copy(update={"value": value})
    return routing.model_copy(update={"threshold": threshold})
