"""Requests that bring their own routing, beside some that bring none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from msgspec.structs import replace as changed

from trsched.request import GenerateRequest

ONE_MODEL: list[dict[str, Any]] = [{}, {"only": 0}, {"only": 1}]
ANY: list[dict[str, Any]] = [
    {},
    {"threshold": 0.0},
    {"only": 0},
    {"threshold": 0.1},
    {"only": 1},
    {"threshold": 0.6},
    {"threshold": 1.0},
]
"""Of both an odd number: every other request of the tests is greedy."""


def with_own_routing(
    requests: Sequence[GenerateRequest], kinds: Sequence[dict[str, Any]]
) -> list[GenerateRequest]:
    """The requests, of these kinds by turns."""
    return [changed(each, **kind) for each, kind in zip(requests, cycle(kinds), strict=False)]
