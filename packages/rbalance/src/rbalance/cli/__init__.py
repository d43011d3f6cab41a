"""The `rbalance` command. Only declarations: what a command needs is imported when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from rbalance.cli import prediction, simulation

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Which instance of which model should answer a request, by quality, cost and latency.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(short_help="Learn from labelled prompts what to expect of each model.")(prediction.fit)
app.command("eval", short_help="Judge a fitted predictor by prompts it has not seen.")(
    prediction.evaluate
)
app.command("fit-tpot", short_help="Learn instances' time per token from a load sweep.")(
    prediction.fit_tpot
)
app.command(short_help="Simulate many policies at many loads.")(simulation.sweep)
app.command(short_help="Tables and pictures of a sweep.")(simulation.report)
app.command(short_help="Compare decisions with the best matching of each batch.")(simulation.replay)
app.command("tpot-rows", short_help="Measure the simulated cluster, for `fit-tpot`.")(
    simulation.tpot_rows
)


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
