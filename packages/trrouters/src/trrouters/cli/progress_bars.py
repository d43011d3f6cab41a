"""Progress bars on standard error, one a step; none where that is not a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trrouters.training.extra import TrainingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class StepProgress:
    """What a caller is told while the steps run; every callback may be left alone.

    Attributes:
        started: a step's name and its amount of work.
        advanced: work done since the last call, and a few words.
    """

    started: Callable[[str, float], None] = field(default=lambda _name, _amount: None)
    advanced: Callable[[float, str], None] = field(default=lambda _amount, _words: None)


@contextmanager
def progress_bars() -> Iterator[StepProgress]:
    """Callbacks that draw bars while the block runs.

    Raises:
        TrainingExtraError: without rich.
    """
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ImportError as missing:
        raise TrainingExtraError("rich") from missing
    columns = (
        TextColumn("{task.description:12}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        latest = None

        def started(name: str, amount: float) -> None:
            nonlocal latest
            latest = bars.add_task(name, total=amount, words="")

        def advanced(amount: float, words: str) -> None:
            if latest is not None:
                bars.update(latest, advance=amount, words=words)

        yield StepProgress(started, advanced)
