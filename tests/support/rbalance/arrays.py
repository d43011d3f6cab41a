"""Small arrays, written as lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAN = float("nan")


def f32(rows: Any) -> NDArray[np.float32]:
    return np.array(rows, np.float32)
