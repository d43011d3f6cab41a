"""`rbalance fit`: from labelled prompts to a predictor of quality and length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from rbalance.commands.inputs import labelled_prompts, names, open_embedder, ratios
from rbalance.commands.progress import progress
from rbalance.labels.training_set import TrainingSet, held_out
from rbalance.predict.knn import fit_knn
from rbalance.predict.predictor_artefact import save_predictor


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """What the command line asks for."""

    data: Sequence[Path]
    out: Path
    models: str | None
    hold_out: float
    k: int | None
    chars_per_token: Sequence[str]
    default_length: float | None
    embedder: str | None
    precision: str
    seed: int
    as_json: bool


def fit_predictor(options: FitOptions) -> int:
    """Fit, write, print. Raises RbalanceError, OSError."""
    ratio = ratios(options.chars_per_token)
    data = TrainingSet.from_records(labelled_prompts(options.data), names(options.models), ratio)
    kept = ~held_out(data.prompts, options.hold_out, options.seed)
    training = data.take(kept)
    embedder = open_embedder(options.embedder, options.precision)
    with progress("embedding", len(training.prompts)) as advanced:
        fit = fit_knn(training, embedder, options.k, options.default_length, advanced)
    facts = {
        "files": [path.name for path in options.data],
        "hold_out": options.hold_out,
        "seed": options.seed,
        "chars_per_token": ratio,
        "precision": options.precision,
    }
    save_predictor(fit, options.out, facts)
    if options.as_json:
        typer.echo(
            json.dumps(
                {
                    "predictor": str(options.out),
                    "prompts": len(training.prompts),
                    "held_out": len(data.prompts) - len(training.prompts),
                    "k": fit.k,
                    "prior_weight": fit.prior_weight,
                    "models": {
                        name: {"quality": float(quality), "length": float(length)}
                        for name, quality, length in zip(
                            fit.prior.models, fit.prior.quality, fit.prior.length, strict=True
                        )
                    },
                }
            )
        )
        return 0
    left = len(data.prompts) - len(training.prompts)
    typer.echo(
        f"{options.out}: {len(training.prompts)} prompts ({left} held out), {fit.k} neighbours "
        f"and a prior that counts {fit.prior_weight:g}"
    )
    width = max(map(len, fit.prior.models))
    for name, quality, length in zip(
        fit.prior.models, fit.prior.quality, fit.prior.length, strict=True
    ):
        typer.echo(f"  {name:{width}}  quality {quality:.3f}  answer {length:6.0f} tokens")
    return 0
