"""Run a command line of typer: what it prints, and the exit status of what goes wrong."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from trrouters.errors import RouterError
from trrouters.training.extra import TrainingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typer import Typer

BAD_INPUT = 2
INTERRUPTED = 130


def run_app(
    open_app: Callable[[], Typer], program: str, argv: Sequence[str] | None, if_stopped: str
) -> int:
    """Run one command; returns the process's exit status.

    0; after one line on stderr 2 for what cannot be done as asked, 130 when interrupted.

    Args:
        open_app: imports the commands; typer may be missing.
        program: the command's name.
        argv: its words; ``None``: the process's.
        if_stopped: what to say when it is interrupted.
    """
    try:
        app = open_app()
        import typer
    except ImportError as missing:
        return _complain(program, str(TrainingExtraError(missing.name or "typer")))
    try:
        status = int(app(args=argv, prog_name=program, standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _complain(program, error.format_message())
    except BrokenPipeError:
        # the reader of our output left (`| head`); keep the interpreter's last flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RouterError, TrainingExtraError, OSError, ValueError) as error:
        return _complain(program, str(error))
    if status == INTERRUPTED:  # what typer makes of Ctrl-C
        sys.stderr.write(f"{program}: stopped; {if_stopped}\n")
    return status


def print_report(report: dict[str, Any], *, as_json: bool) -> None:
    """One line of JSON, or a line for each key."""
    sys.stdout.write((json.dumps(report) if as_json else _table(report)) + "\n")


def _table(report: dict[str, Any]) -> str:
    lines = []
    for key, value in report.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {item}" for name, item in value.items())
        lines.append(f"{key}: {value}")
    return "\n".join(lines)


def _complain(program: str, message: str) -> int:
    sys.stderr.write(f"{program}: {' '.join(message.split())}\n")
    return BAD_INPUT
