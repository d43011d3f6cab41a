"""Progress bars on standard error, one a step; none where that is not a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trrouters.training.extra import MissingExtraError
from trrouters.training.rebuild import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Callbacks that draw bars while the block runs.

    Raises:
        MissingExtraError: without rich.
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError as missing:
        raise MissingExtraError("rich") from missing
    columns = (
        TextColumn("{task.description:12}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
    )
    console = Console(stderr=True)
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        latest = None

        def started(name: str, amount: float) -> None:
            nonlocal latest
            latest = bars.add_task(name, total=amount, words="")

        def advanced(amount: float, words: str) -> None:
            if latest is not None:
                bars.update(latest, advance=amount, words=words)

        yield Progress(started, advanced)
