"""Declarations of `rbalance fit`, `eval` and `fit-tpot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbalance.cli.options import AsJson, CharsPerToken, LabelledFiles, Models, Out, Precision


def fit(
    data: LabelledFiles,
    out: Out,
    models: Models = None,
    hold_out: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Share of the prompts to keep for `rbalance eval`."),
    ] = 0.2,
    k: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Neighbours to average; the article has 10. [default: found by leave-one-out]",
        ),
    ] = None,
    chars_per_token: CharsPerToken = None,
    default_length: Annotated[
        float | None,
        typer.Option(
            metavar="TOKENS", help="To expect of a model none of whose answers has a length."
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A folder or hub name of sentence-transformers. [default: all-MiniLM-L6-v2]",
        ),
    ] = None,
    precision: Precision = "bf16",
    seed: Annotated[int, typer.Option(metavar="N", help="Of the choice of held-out prompts.")] = 0,
    as_json: AsJson = False,
) -> int:
    """Fit a predictor of quality and length, and write it to a folder."""
    from rbalance.commands.fit import FitOptions, fit_predictor

    return fit_predictor(
        FitOptions(
            data=data,
            out=out,
            models=models,
            hold_out=hold_out,
            k=k,
            chars_per_token=chars_per_token or (),
            default_length=default_length,
            embedder=embedder,
            precision=precision,
            seed=seed,
            as_json=as_json,
        )
    )


def evaluate(
    predictor: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `fit` wrote.")],
    data: LabelledFiles,
    prices: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="MODEL=IN/OUT",
            help="USD per million tokens, for each model; then costs are shown. Repeatable.",
        ),
    ] = None,
    chars_per_token: CharsPerToken = None,
    precision: Precision = "bf16",
    resamples: Annotated[
        int, typer.Option(metavar="N", min=100, help="Of the bootstrap, for the intervals.")
    ] = 2000,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the bootstrap.")] = 0,
    as_json: AsJson = False,
) -> int:
    """Accuracy, regret, calibration and the routed quality, each with a 95 % interval."""
    from rbalance.commands.evaluate import EvalOptions, evaluate_predictor

    return evaluate_predictor(
        EvalOptions(
            predictor=predictor,
            data=data,
            prices=prices or (),
            chars_per_token=chars_per_token or (),
            precision=precision,
            resamples=resamples,
            seed=seed,
            as_json=as_json,
        )
    )


def fit_tpot(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="ROWS...", help="Measured requests, JSON lines (see the README)."),
    ],
    out: Out,
    as_json: AsJson = False,
) -> int:
    """Train a TPOT head for each tier, and write them to a folder."""
    from rbalance.commands.fit_tpot import fit_tpot_heads

    return fit_tpot_heads(data, out, as_json=as_json)
