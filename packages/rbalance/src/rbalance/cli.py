"""The `rbalance` command. Only declarations: what a command needs is imported when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Which instance of which model should answer a request, by quality, cost and latency.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write it.")]
LabelledFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA...",
        help="Labelled prompts: JSON lines, or a RouterBench or RouteLLM table (.csv); also .gz.",
    ),
]
Models = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="These models only. [default: all in the data]"),
]
CharsPerToken = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[MODEL=]RATIO",
        help="Answers' characters per token, for all or one model. Repeatable. [default: 4]",
    ),
]
Precision = Annotated[
    str, typer.Option(metavar="bf16|fp32", help="What the embedder computes with.")
]


@app.command(short_help="Learn from labelled prompts what to expect of each model.")
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


@app.command("eval", short_help="Judge a fitted predictor by prompts it has not seen.")
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


@app.command("fit-tpot", short_help="Learn instances' time per token from a load sweep.")
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


@app.command(short_help="Simulate many policies at many loads.")
def sweep(
    out: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Where points are kept; run again to go on."),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DATA...]", help="Labelled prompts; not needed to go on."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="A,B,C,D", help="Four models, cheapest first, for the four tiers."),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Like best-route:threshold=0.5,dispatch=random. Repeatable. [default: all]",
        ),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRESET|Q/C/L", help="Of route-balance, such as 0.6/0.2/0.2. Repeatable."
        ),
    ] = None,
    rates: Annotated[
        str, typer.Option(metavar="A,B,...", help="Requests a second.")
    ] = "6,12,18,24,30",
    requests: Annotated[int, typer.Option(metavar="N", help="At each point.")] = 2000,
    arrivals: Annotated[str, typer.Option(metavar="poisson|gamma")] = "poisson",
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Arrivals and lengths from Azure's (CSV) or Mooncake's trace."
        ),
    ] = None,
    deployment: Annotated[
        str,
        typer.Option(metavar="NAME", help="How all policies are scored. [default: each as usual]"),
    ] = "",
    instances: Annotated[
        int, typer.Option(metavar="N", help="In all, of the article's mix of tiers.")
    ] = 13,
    seed: Annotated[int, typer.Option(metavar="N")] = 0,
    precision: Precision = "bf16",
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Points at a time.")
    ] = os.cpu_count() or 1,
    heads: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What `fit-tpot` wrote, for tpot=xgboost.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Simulate policies on the article's cluster; points that are there are not run again."""
    from rbalance.commands.sweep import SweepOptions
    from rbalance.commands.sweep import sweep as run

    return run(
        SweepOptions(
            data=data or (),
            out=out,
            models=models,
            policies=policies or (),
            rates=rates,
            weights=weights or (),
            requests=requests,
            arrivals=arrivals,
            trace=trace,
            deployment=deployment,
            instances=instances,
            seed=seed,
            precision=precision,
            jobs=jobs,
            heads=heads,
            as_json=as_json,
        )
    )


SweepFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `sweep` wrote.")]


@app.command(short_help="Tables and pictures of a sweep.")
def report(
    folder: SweepFolder,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", help="Load at which policies are compared. [default: near 12]"),
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Write PNG files, too.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Frontier, radar, latency over load and overhead, into the folder."""
    from rbalance.commands.report import report as run

    return run(folder, rate, as_json=as_json, pictures=pictures)


@app.command(short_help="Compare decisions with the best matching of each batch.")
def replay(
    folder: SweepFolder,
    against: Annotated[str, typer.Option(metavar="hungarian")] = "hungarian",
    weights: Annotated[str, typer.Option(metavar="PRESET|Q/C/L")] = "uniform",
    rate: Annotated[float, typer.Option(metavar="N", help="Requests a second.")] = 30.0,
    requests: Annotated[int, typer.Option(metavar="N", min=1)] = 2000,
    batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Fixed size. [default: adaptive]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N")] = 0,
    as_json: AsJson = False,
) -> int:
    """How often a matching chooses otherwise, and what its answers would have scored."""
    from rbalance.commands.replay import ReplayOptions
    from rbalance.commands.replay import replay as run

    return run(
        ReplayOptions(
            folder=folder,
            against=against,
            weights=weights,
            rate=rate,
            requests=requests,
            batch=batch,
            seed=seed,
            as_json=as_json,
        )
    )


@app.command("tpot-rows", short_help="Measure the simulated cluster, for `fit-tpot`.")
def tpot_rows(
    folder: SweepFolder,
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON lines.")],
    rates: Annotated[
        str, typer.Option(metavar="A,B,...", help="Requests a second.")
    ] = "1,2,4,8,12,16,20,24,30",
    requests: Annotated[int, typer.Option(metavar="N", min=1, help="At each rate.")] = 2000,
    seed: Annotated[int, typer.Option(metavar="N")] = 0,
) -> int:
    """Sweep over loads, instances in turn, and write a row for each request."""
    from rbalance.commands.tpot_rows import write_tpot_rows

    return write_tpot_rows(folder, out, rates, requests, seed)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status. Bad input: 2 and one line on stderr."""
    from rbalance.errors import RbalanceError

    try:
        return int(app(args=argv, prog_name="rbalance", standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _complain(error.format_message())
    except (RbalanceError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # the reader of our output left (`| head`); keep the interpreter's last flush quiet
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return _complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED


def _complain(message: str) -> int:
    typer.echo(f"rbalance: {' '.join(message.split())}", err=True)
    return BAD_INPUT
