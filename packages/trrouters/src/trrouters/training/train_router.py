"""`trrouters train`: from collected rows to a checkpoint."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trrouters.checkpoint import RouterCheckpoint
from trrouters.training.calibrate import doubt_for
from trrouters.training.fit import FitSettings, fit
from trrouters.training.ranking import roc_auc
from trrouters.training.rows import load_collected, load_rows
from trrouters.training.trained_algorithm import ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

VALIDATION_SHARE = 0.15
"""Of the prompts: kept from learning, for early stopping and for the first threshold."""

FIRST_RECALL = 0.95
"""Of the divergent tokens: what a fresh router's threshold finds (R2R, section 4)."""


def train_router(
    algorithm_name: str,
    data: Path,
    settings: FitSettings | None = None,
    *,
    architecture: Mapping[str, Any] | None = None,
    progress: Callable[[int, str], None] = lambda _, __: None,
) -> RouterCheckpoint:
    """Fit a router to what `trrouters collect` wrote to ``data``.

    Args:
        algorithm_name: ``r2r``, ``citer`` or ``co_llm``.
        data: the directory.
        settings: of the fit.
        architecture: arguments of the network that replace the default ones.
        progress: called after each epoch.

    Raises:
        OSError: when there is no data.
        ValueError: when the data is damaged, or the rows cannot be learnt from.
    """
    algorithm = ALGORITHMS[algorithm_name]
    settings = settings or FitSettings()
    began = time.monotonic()
    rows, collected = load_rows(data), load_collected(data)
    found, wanted = len(set(rows.prompts.tolist())), collected.prompts["count"]
    if found != wanted:
        raise ValueError(f"{data} has rows of {found} of {wanted} prompts: let `collect` finish")
    rows = rows.where(algorithm.usable(rows))
    if len(set(rows.prompts.tolist())) < 2:
        raise ValueError("training takes two prompts at least: one to learn from, one to check")
    usable, checked = rows.split_prompts(VALIDATION_SHARE)
    shape = {**algorithm.architecture(rows), **(architecture or {})}
    network, loss = fit(algorithm, shape, usable, checked, settings, progress=progress)
    doubts = algorithm.doubts(algorithm.scores(network, checked))
    known = (checked.divergent >= 0).numpy()
    divergent = (checked.divergent == 1).numpy()
    return RouterCheckpoint(
        algorithm=algorithm.name,
        architecture=shape,
        threshold=algorithm.threshold(doubt_for(checked, doubts, recall=FIRST_RECALL)),
        pair=collected.pair,
        tensors=network.state_dict(),
        training={
            "rows": len(usable),
            "prompts": collected.prompts,
            "max_tokens": collected.max_tokens,
            "horizon": collected.horizon,
            "fit": asdict(settings),
            "seconds": round(time.monotonic() - began, 1),
            "validation": {
                "rows": len(checked),
                "loss": round(loss, 4),
                "roc_auc_divergent": round(roc_auc(doubts[known], divergent[known]), 4),
            },
            "threshold_for": {"recall": FIRST_RECALL, "rows": len(checked)},
        },
    )
