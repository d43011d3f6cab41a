"""The numbers a TPOT head sees: 17 of the instance's state, 2 of the request, 6 derived.

The counts are those of the article's artefact; which numbers they are is decided here. Both a
gateway and a simulator can know each of them; one that is not known is NaN, which XGBoost treats as
missing. "Window" is the last second or so, as long as whoever keeps the state likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Feature:
    """A column: its name, unit and meaning."""

    name: str
    unit: str
    meaning: str


STATE_FEATURES = (
    Feature("running", "requests", "being decoded"),
    Feature("waiting", "requests", "dispatched, not yet decoded"),
    Feature("slots", "requests", "it can decode at once"),
    Feature("pending_prefill", "tokens", "of prompts not yet read"),
    Feature("pending_decode", "tokens", "expected and not yet written, waiting requests' included"),
    Feature("kv_usage", "share, 0 to 1", "of its KV memory in use"),
    Feature("context", "tokens", "held by running requests: prompts and what was written"),
    Feature("written", "tokens", "that running requests have written so far"),
    Feature("oldest_running", "seconds", "since its oldest running request was dispatched"),
    Feature("oldest_waiting", "seconds", "since its oldest waiting request was dispatched"),
    Feature("dispatch_rate", "requests/s", "dispatched to it in the window"),
    Feature("finish_rate", "requests/s", "finished by it in the window"),
    Feature("prefill_rate", "tokens/s", "of prompts read in the window"),
    Feature("decode_rate", "tokens/s", "written in the window, all requests together"),
    Feature("recent_tpot", "seconds", "mean time between tokens of one request in the window"),
    Feature("recent_ttft", "seconds", "mean time to the first token in the window"),
    Feature("telemetry_age", "seconds", "since it last told of itself"),
)
REQUEST_FEATURES = (
    Feature("prompt", "tokens", "of the request's prompt"),
    Feature("predicted", "tokens", "expected of the answer of this instance's model"),
)
DERIVED_FEATURES = (
    Feature("occupancy", "share", "running / slots"),
    Feature("queue_per_slot", "requests", "waiting / slots"),
    Feature("decode_per_running", "tokens", "pending_decode / running"),
    Feature("context_per_running", "tokens", "context / running"),
    Feature("batch_if_joined", "requests", "running + waiting + 1, at most slots"),
    Feature("prefill_share", "share", "prefill_rate / (prefill_rate + decode_rate)"),
)
FEATURES = STATE_FEATURES + REQUEST_FEATURES + DERIVED_FEATURES

STATE_COLUMN = {feature.name: column for column, feature in enumerate(STATE_FEATURES)}
"""A state feature's column in the arrays below, by name."""


def unknown_state(instances: int) -> NDArray[np.float32]:
    """float32 [I, 17] in the order of STATE_FEATURES, nothing known; to be filled by column."""
    return np.full((instances, len(STATE_FEATURES)), np.nan, np.float32)


def feature_rows(
    state: NDArray[np.float32], prompt: NDArray[np.float32], predicted: NDArray[np.float32]
) -> NDArray[np.float32]:
    """float32 [N, 25] in the order of FEATURES.

    state: [N, 17]; prompt and predicted: [N], tokens. What depends on an unknown is unknown.
    """
    rows = np.empty((len(state), len(FEATURES)), np.float32)
    known = len(STATE_FEATURES)
    rows[:, :known] = state
    rows[:, known] = prompt
    rows[:, known + 1] = predicted
    column = {name: state[:, index] for name, index in STATE_COLUMN.items()}
    running = np.maximum(column["running"], 1.0)
    slots = np.maximum(column["slots"], 1.0)
    derived = rows[:, known + len(REQUEST_FEATURES) :]
    derived[:, 0] = column["running"] / slots
    derived[:, 1] = column["waiting"] / slots
    derived[:, 2] = column["pending_decode"] / running
    derived[:, 3] = column["context"] / running
    derived[:, 4] = np.minimum(column["running"] + column["waiting"] + 1.0, slots)
    read = column["prefill_rate"]
    derived[:, 5] = read / np.maximum(read + column["decode_rate"], 1.0)
    return rows
