"""``trrouters COMMAND``, or ``python -m trrouters COMMAND``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trrouters.cli.run_app import run_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer import Typer


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 2 for bad input, 130 when interrupted."""
    return run_app(_app, "trrouters", argv, "the same command continues")


def _app() -> Typer:
    from trrouters.cli.app import app

    return app
