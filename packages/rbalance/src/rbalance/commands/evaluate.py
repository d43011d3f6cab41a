"""`rbalance eval`: a fitted predictor on prompts it has not seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import typer

from rbalance.commands.inputs import labelled_prompts, open_embedder, prices, ratios
from rbalance.commands.progress import progress
from rbalance.errors import TrainingError
from rbalance.labels.bootstrap import Interval
from rbalance.labels.training_set import TrainingSet, prompt_digests
from rbalance.predict.evaluation import Evaluation, evaluate
from rbalance.predict.knn import KnnFit, KnnPredictor
from rbalance.predict.predictions import Predictions
from rbalance.predict.predictor_artefact import load_predictor

_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What the command line asks for."""

    predictor: Path
    data: Sequence[Path]
    prices: Sequence[str]
    chars_per_token: Sequence[str]
    precision: str
    resamples: int
    seed: int
    as_json: bool


def evaluate_predictor(options: EvalOptions) -> int:
    """Predict, judge, print. Raises RbalanceError, OSError."""
    priced = prices(options.prices)
    fit = load_predictor(options.predictor)
    data = TrainingSet.from_records(
        labelled_prompts(options.data), fit.prior.models, ratios(options.chars_per_token)
    )
    unseen = _unseen(data, fit)
    predictor = KnnPredictor(fit, open_embedder(fit.embedder, options.precision))
    found = _predict(predictor, unseen)
    judged = evaluate(unseen, found, fit.prior, priced or None, options.resamples, options.seed)
    seen = len(data.prompts) - len(unseen.prompts)
    if options.as_json:
        typer.echo(json.dumps({"left_out": seen, **msgspec.to_builtins(judged)}))
    else:
        _print(judged, fit, seen)
    return 0


def _unseen(data: TrainingSet, fit: KnnFit) -> TrainingSet:
    """Those whose text the predictor was not fitted to. Raises TrainingError if there is none."""
    unseen = ~np.isin(prompt_digests(data.prompts), fit.digests)
    if not unseen.any():
        raise TrainingError("the predictor was fitted to all of these prompts; fit with --hold-out")
    return data.take(unseen)


def _predict(predictor: KnnPredictor, data: TrainingSet) -> Predictions:
    count = len(data.prompts)
    order = sorted(range(count), key=lambda row: len(data.prompts[row]))
    found = predictor.prior.predictions(count)
    with progress("predicting", count) as advanced:
        for start in range(0, count, _BATCH):
            rows = order[start : start + _BATCH]
            batch = predictor.predict([data.prompts[row] for row in rows])
            found.quality[rows] = batch.quality
            found.length[rows] = batch.length
            found.from_prior[rows] = batch.from_prior
            advanced(len(rows))
    return found


def _print(judged: Evaluation, fit: KnnFit, seen: int) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False)
    typer.echo(
        f"{judged.prompts} held-out prompts ({seen} seen in training left out), "
        f"{len(fit.prior.models)} models, {len(fit.vectors)} training prompts, k = {fit.k}"
    )
    table = Table(title="mean [95 % interval]", title_justify="left")
    table.add_column("choice")
    for heading in ("quality", "gain over best single", "regret to oracle", "USD / 1000"):
        table.add_column(heading, justify="right")
    for name, choice in judged.choices.items():
        table.add_row(
            name,
            _shown(choice.quality),
            _shown(choice.gain),
            _shown(choice.regret),
            "" if choice.usd is None else f"{choice.usd * 1e3:.4f}",
        )
    console.print(table)
    typer.echo(f"best model predicted: {_shown(judged.accuracy)} of the prompts")
    found = judged.calibration
    typer.echo(
        f"calibration over {found.pairs} pairs: ECE {found.ece:.4f}, squared error "
        f"{found.squared_error:.4f} (prior alone {found.prior_squared_error:.4f})"
    )
    for each in found.bins:
        typer.echo(
            f"  predicted {each.predicted:.3f}  scored {each.scored:.3f}  ({each.pairs} pairs)"
        )
    if judged.length is not None:
        typer.echo(
            f"answer lengths: off by {judged.length.predicted:.0f} tokens on average "
            f"(prior alone {judged.length.prior:.0f})"
        )


def _shown(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
