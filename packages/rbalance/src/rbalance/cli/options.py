"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
