"""Progress of a command on standard error; a bar where that is a terminal, else only notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """What a command calls as it gets on.

    started: a piece of work begins, of so many steps.
    advanced: one of them is done.
    note: a line to be read.
    """

    started: Callable[[str, int], None]
    advanced: Callable[[], None]
    note: Callable[[str], None]


@contextmanager
def progress() -> Iterator[Progress]:
    """Callbacks that draw while the block runs; what they drew is gone after it."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, highlight=False, markup=False)
    with Bars(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        latest = None

        def started(name: str, steps: int) -> None:
            nonlocal latest
            latest = bars.add_task(name, total=steps)

        def advanced() -> None:
            if latest is not None:
                bars.advance(latest)

        yield Progress(started, advanced, lambda line: console.print(line, soft_wrap=True))
