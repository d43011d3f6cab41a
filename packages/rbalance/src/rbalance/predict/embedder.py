"""What turns prompts into vectors whose angles say how alike they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Prompts in, unit vectors out; one call for a batch."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of everything that decides the vectors, rounding aside.

        What was fitted to one embedder's vectors is refused with another's.
        """
        ...

    @property
    def dimension(self) -> int:
        """D, of `embed`."""
        ...

    def embed(self, prompts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [R, D], every row of length 1."""
        ...
