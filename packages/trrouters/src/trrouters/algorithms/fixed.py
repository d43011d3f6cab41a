"""One model makes every token: what single-model serving is, on the same runtime."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trrouters.base_router import BaseRouter, RouterContext
from trrouters.route_result import Destinations, RouteResult


class Fixed(BaseRouter):
    """All requests start at `model` (its index in the group) and stay there."""

    models: ClassVar[tuple[int, int | None]] = (1, None)
    degradable: ClassVar[bool] = False

    def __init__(self, context: RouterContext, *, model: int = 0) -> None:
        super().__init__(context)
        if not 0 <= model < context.n_models:
            raise ValueError(f"model must be 0 to {context.n_models - 1}, not {model}")
        self.model = model

    def entry(self, seed: int) -> int:
        """Every request starts at `model`."""
        del seed
        return self.model

    def route(self, result: RouteResult) -> Destinations:
        """Stay."""
        return np.zeros(len(result.requests), dtype=np.int64)
