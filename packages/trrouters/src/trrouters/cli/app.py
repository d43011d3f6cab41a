"""The commands' words. Only declarations: what a command needs is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trrouters.cli import commands
from trrouters.cli.run_app import print_report

ALGORITHMS = ("r2r", "citer", "co-llm")

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    """Train token-level routers for a pair of models."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
Data = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder that `trrouters collect` wrote.")
]
CheckpointFolder = Annotated[
    Path, typer.Option(metavar="FOLDER", file_okay=False, help="Checkpoint folder to write.")
]


def _algorithm(text: str) -> str:
    """`co_llm`, as configurations say it, is `co-llm`."""
    name = text.replace("_", "-")
    if name not in ALGORITHMS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(ALGORITHMS)}.")
    return name


def _widths(text: str | None) -> list[int] | None:
    parts = [] if text is None else text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers of at least 1, as 1024,1024.",
            param_hint="'--widths'",
        )
    return [int(part) for part in parts] or None


@app.command(short_help="Run a pair of models over prompts, keep rows.")
def collect(
    pair: Annotated[
        str, typer.Option(metavar="NAME", help="Preset, or configuration file of a group.")
    ],
    prompts: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="One a line, or .jsonl; package://PACKAGE/FILE works, too."
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", file_okay=False, help="Continued if it was begun.")
    ],
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Take the first so many prompts.")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Longest answer, in tokens.")
    ] = 96,
    horizon: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tokens compared after a difference.")
    ] = 8,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Prompts side by side.")] = 16,
    context: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most tokens of prompt and answer.")
    ] = 512,
    as_json: AsJson = False,
) -> None:
    """Let the large model answer prompts, and keep what the small one saw at every token."""
    report = commands.collect(
        pair,
        prompts,
        out,
        limit=limit,
        max_tokens=max_tokens,
        horizon=horizon,
        batch=batch,
        context=context,
    )
    print_report(report, as_json=as_json)


@app.command(short_help="Fit a router to collected rows.")
def train(
    algorithm: Annotated[
        str, typer.Argument(metavar="|".join(ALGORITHMS), parser=_algorithm, help="Which one.")
    ],
    data: Data,
    out: CheckpointFolder,
    epochs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most times the rows are read.")
    ] = 12,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="R", help="At its peak. [default: the algorithm's]")
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(metavar="W,W,...", help="Of the network's layers, e.g. 1024,1024."),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of the first weights and the order of rows.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Fit a router's network, and write a checkpoint for the pair that was collected from."""
    report = commands.train(
        algorithm.replace("-", "_"),
        data,
        out,
        epochs=epochs,
        learning_rate=learning_rate,
        widths=_widths(widths),
        seed=seed,
    )
    print_report(report, as_json=as_json)


@app.command(short_help="Choose a threshold for a rate or a recall.")
def calibrate(
    router: Annotated[
        str,
        typer.Argument(
            metavar="ROUTER", help="Checkpoint folder, rewritten; or r_stitch, printed only."
        ),
    ],
    data: Data,
    rate: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Of the small model's tokens: handed over."),
    ] = None,
    recall: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Of the divergent tokens: handed over.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose a router's threshold for one of two aims, `--rate` or `--recall`."""
    if (rate is None) == (recall is None):
        raise typer.BadParameter("give one of the two.", param_hint="'--rate' / '--recall'")
    print_report(commands.calibrate(router, data, rate=rate, recall=recall), as_json=as_json)


@app.command("eval", short_help="How well routers find divergent tokens.")
def evaluate(
    routers: Annotated[list[str], typer.Argument(metavar="ROUTER...", help="Checkpoint folders.")],
    data: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder that `trrouters collect` wrote, of unseen prompts."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Measure routers on prompts that they never saw, R-Stitch's entropy beside them."""
    print_report(commands.evaluate(routers, data), as_json=as_json)


@app.command("import-r2r", short_help="Convert a router of the public R2R collection.")
def import_r2r(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its .pt file.")],
    large: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the large model that it is for.")
    ],
    out: CheckpointFolder,
    small: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the small model. [default: what the file says]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a file of torch.save to a checkpoint, running none of its code."""
    print_report(commands.import_r2r(file, out, large=large, small=small), as_json=as_json)
