"""What was measured of one request: the rows that TPOT heads are trained on.

A file is JSON lines, one finished request of a load sweep a line:

    {"tier": "qwen2.5-7b/a30", "state": {"running": 3, "waiting": 0, …},
     "prompt": 210, "predicted": 180, "tpot_s": 0.0206}

`state` is the instance's when the request was dispatched, by the names of STATE_FEATURES; what is
missing or null was not known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from rbalance.errors import TrainingError
from rbalance.tpot.features import STATE_COLUMN, STATE_FEATURES, unknown_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class TpotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request on an instance of `tier` (a model on a kind of GPU).

    prompt: tokens.
    predicted: tokens expected of the answer then.
    tpot_s: seconds from its first token to its last, divided by the tokens after the first.
    """

    tier: Annotated[str, Meta(min_length=1)]
    state: dict[str, float | None]
    prompt: Annotated[float, Meta(ge=0.0)]
    predicted: Annotated[float, Meta(ge=0.0)]
    tpot_s: Annotated[float, Meta(gt=0.0)]

    @classmethod
    def of(
        cls,
        tier: str,
        state: NDArray[np.float32],
        prompt: float,
        predicted: float,
        tpot_s: float,
    ) -> TpotRecord:
        """From an instance's row of the state array: float32 [17], NaN for unknown."""
        known: dict[str, float | None] = {
            feature.name: float(value)
            for feature, value in zip(STATE_FEATURES, state, strict=True)
            if not np.isnan(value)
        }
        return cls(
            tier=tier,
            state=known,
            prompt=float(prompt),  # numpy's numbers too, which msgspec does not encode
            predicted=float(predicted),
            tpot_s=float(tpot_s),
        )

    def state_row(self) -> NDArray[np.float32]:
        """float32 [17], NaN for unknown. Raises KeyError for a name that is no state feature."""
        state = unknown_state(1)
        for name, value in self.state.items():
            state[0, STATE_COLUMN[name]] = np.nan if value is None else value
        return np.asarray(state[0])


def read_tpot_records(path: Path) -> Iterator[TpotRecord]:
    """Yield a file's rows in order. Raises TrainingError naming file and line; OSError."""
    decoder = msgspec.json.Decoder(TpotRecord)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                record = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise TrainingError(f"{path}:{number}: {error}") from error
            if unknown := sorted(record.state.keys() - STATE_COLUMN.keys()):
                raise TrainingError(f"{path}:{number}: state has no feature {unknown[0]!r}")
            yield record
