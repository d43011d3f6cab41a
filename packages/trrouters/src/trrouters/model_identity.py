"""Which model a router was trained for, or runs with."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """A model of a group.

    Attributes:
        name: as configured, or as its hub calls it.
        fingerprint: of its weights; None where unknown (a router published elsewhere names its
            models only).
        hidden_size: 0 where unknown.
    """

    name: str
    fingerprint: str | None = None
    hidden_size: int = 0

    def is_same(self, other: ModelIdentity) -> bool:
        """Equal fingerprints; where one is unknown, equal names (without the owner, any spelling).

        "Qwen/Qwen3-0.6B" and "qwen3_0.6b" are one name.
        """
        if self.fingerprint is not None and other.fingerprint is not None:
            return self.fingerprint == other.fingerprint
        return _plain(self.name) == _plain(other.name)

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint})" if self.fingerprint else self.name


def _plain(name: str) -> str:
    return re.sub(r"[^\w.]|_", "", name.rpartition("/")[2].casefold())
