"""What the commands do: each returns its report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from trrouters.checkpoint import RouterCheckpoint


def collect(
    pair_name: str,
    prompts_file: str,
    out: Path,
    *,
    limit: int | None,
    max_tokens: int,
    horizon: int,
    batch: int,
    context: int,
) -> dict[str, Any]:
    """Collect rows into ``out``; the models are opened once the prompts are read."""
    from trrouters.cli.progress_bars import progress_bars
    from trrouters.training import pair as pairs
    from trrouters.training.collect import CollectSettings
    from trrouters.training.collect import collect as collect_rows
    from trrouters.training.prompts import read_prompts
    from trrouters.training.rows import load_rows

    prompts = read_prompts(prompts_file, limit)
    settings = CollectSettings(max_tokens=max_tokens, horizon=horizon)
    with (
        pairs.open_pair(pair_name, sequences=batch, context=context) as pair,
        progress_bars() as progress,
    ):
        progress.started("collecting", len(prompts))
        paths = collect_rows(pair, prompts, out, settings, progress=progress.advanced)
    rows = load_rows(out)
    return {
        "shards": len(paths),
        "prompts": len(prompts),
        "rows": len(rows),
        "agreement": round(float(rows.agrees.float().mean()), 4),
        "divergent": round(float((rows.divergent == 1).float().mean()), 4),
    }


def train(
    algorithm: str,
    data: Path,
    out: Path,
    *,
    epochs: int,
    learning_rate: float | None,
    widths: Sequence[int] | None,
    seed: int,
) -> dict[str, Any]:
    """Fit a router to the rows in ``data`` and write its checkpoint to ``out``."""
    from trrouters.checkpoint import save_checkpoint
    from trrouters.cli.progress_bars import progress_bars
    from trrouters.training.fit import FitSettings
    from trrouters.training.train_router import train_router
    from trrouters.training.trained_algorithm import ALGORITHMS

    settings = FitSettings(epochs=epochs, learning_rate=learning_rate, seed=seed)
    with progress_bars() as progress:
        progress.started("training", settings.epochs * len(ALGORITHMS[algorithm].losses))
        checkpoint = train_router(
            algorithm,
            data,
            settings,
            architecture={"widths": list(widths)} if widths else None,
            progress=progress.advanced,
        )
    save_checkpoint(checkpoint, out)
    facts = {key: checkpoint.training[key] for key in ("rows", "seconds", "validation")}
    return {
        "checkpoint": str(out),
        "bytes": sum(file.stat().st_size for file in out.iterdir()),
        "threshold": checkpoint.threshold,
        **facts,
    }


def calibrate(
    router: str, data: Path, *, rate: float | None, recall: float | None
) -> dict[str, Any]:
    """Choose a threshold; a checkpoint is rewritten with it."""
    from trrouters.checkpoint import save_checkpoint
    from trrouters.errors import CheckpointError
    from trrouters.training.calibrate import calibrate_checkpoint, calibrate_entropy
    from trrouters.training.rows import load_rows

    rows = load_rows(data)
    if router == "r_stitch":
        return asdict(calibrate_entropy(rows, rate=rate, recall=recall))
    if router.startswith("package://"):
        raise CheckpointError(f"{router} belongs to a package: calibrate a copy of it")
    checkpoint, calibrated = calibrate_checkpoint(
        _open(router, data), rows, rate=rate, recall=recall
    )
    save_checkpoint(checkpoint, Path(checkpoint.source))
    return asdict(calibrated)


def evaluate(routers: Sequence[str], data: Path) -> dict[str, Any]:
    """Measures of each router, and of R-Stitch's entropy."""
    from trrouters.training.evaluate import evaluate as measures_of
    from trrouters.training.rows import load_rows

    rows = load_rows(data)
    report = measures_of([_open(router, data) for router in routers], rows)
    return {
        router: {key: round(value, 4) for key, value in measures.items()}
        for router, measures in report.items()
    }


def import_r2r(file: Path, out: Path, *, large: str, small: str | None) -> dict[str, Any]:
    """Convert a router of the public collection."""
    from trrouters.checkpoint import save_checkpoint
    from trrouters.training.import_r2r import import_r2r as converted

    checkpoint = converted(file, large=large, small=small)
    save_checkpoint(checkpoint, out)
    return {"checkpoint": str(out), "threshold": checkpoint.threshold}


def _open(router: str, data: Path) -> RouterCheckpoint:
    """A checkpoint for the pair whose rows `data` holds."""
    from trrouters.checkpoint import load_checkpoint
    from trrouters.errors import CheckpointError
    from trrouters.training.rows import load_collected
    from trrouters.training.trained_algorithm import ALGORITHMS

    checkpoint = load_checkpoint(router)
    if checkpoint.algorithm not in ALGORITHMS:
        raise CheckpointError(f"{router}: {checkpoint.algorithm!r} routers are not trained here")
    checkpoint.check_models(load_collected(data).pair)
    return checkpoint
