"""`trrouters collect | train | calibrate | eval | import-r2r`: routers for a pair of one's own."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from trrouters.checkpoint import RouterCheckpoint

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_DATA = "directory that `trrouters collect` wrote"


def add_router_commands(commands: Commands) -> None:
    """Add the five commands; each parser's default ``command`` runs it and returns a report."""
    collect = commands.add_parser("collect", help="run a pair of models over prompts, keep rows")
    collect.set_defaults(command=_collect)
    collect.add_argument("--pair", required=True, help="preset, or configuration file of a group")
    collect.add_argument(
        "--prompts", required=True, help="one a line, or .jsonl; package://PACKAGE/FILE works"
    )
    collect.add_argument("--out", type=_folder, required=True, help="directory; continued if begun")
    collect.add_argument("--limit", type=_count, help="take the first so many prompts")
    collect.add_argument("--max-tokens", type=_count, default=96, help="longest answer")
    collect.add_argument(
        "--horizon", type=_count, default=8, help="tokens compared after a difference"
    )
    collect.add_argument("--batch", type=_count, default=16, help="prompts side by side")
    collect.add_argument(
        "--context", type=_count, default=512, help="most tokens of prompt and answer"
    )

    train = commands.add_parser("train", help="fit a router to collected rows")
    train.set_defaults(command=_train)
    train.add_argument("algorithm", type=_dashed, choices=["r2r", "citer", "co-llm"])
    train.add_argument("--data", type=Path, required=True, help=_DATA)
    train.add_argument("--out", type=_folder, required=True, help="checkpoint folder to write")
    train.add_argument("--epochs", type=_count, default=12, help="most times the rows are read")
    train.add_argument("--learning-rate", type=float, help="default: the algorithm's")
    train.add_argument("--widths", type=_widths, help="of the network's layers, e.g. 1024,1024")
    train.add_argument("--seed", type=int, default=0)

    calibrate = commands.add_parser("calibrate", help="choose a threshold for a rate or a recall")
    calibrate.set_defaults(command=_calibrate)
    calibrate.add_argument("router", help="checkpoint folder, rewritten; or r_stitch, printed only")
    calibrate.add_argument("--data", type=Path, required=True, help=_DATA)
    aim = calibrate.add_mutually_exclusive_group(required=True)
    aim.add_argument("--rate", type=float, help="share of the small model's tokens handed over")
    aim.add_argument("--recall", type=float, help="share of divergent tokens handed over")

    evaluate = commands.add_parser("eval", help="how well routers find divergent tokens")
    evaluate.set_defaults(command=_evaluate)
    evaluate.add_argument("routers", nargs="+", help="checkpoint folders")
    evaluate.add_argument("--data", type=Path, required=True, help=_DATA + ", unseen prompts")

    convert = commands.add_parser(
        "import-r2r", help="convert a router of the public R2R collection"
    )
    convert.set_defaults(command=_import_r2r)
    convert.add_argument("file", type=Path, help=".pt file")
    convert.add_argument("--large", required=True, help="name of the large model it is for")
    convert.add_argument("--small", help="name of the small model (default: the file says)")
    convert.add_argument("--out", type=_folder, required=True, help="checkpoint folder to write")

    for command in (collect, train, calibrate, evaluate, convert):
        command.add_argument("--json", action="store_true", help="print one line of JSON")


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return count


def _widths(text: str) -> list[int]:
    return [_count(part) for part in text.split(",")]


def _dashed(text: str) -> str:
    """`co_llm`, as configurations say it, is `co-llm`."""
    return text.replace("_", "-")


def _folder(text: str) -> Path:
    """Refused before hours of work, not after."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file")
    return path


def _collect(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.training.collect import CollectSettings, collect
    from trrouters.training.pair import open_pair
    from trrouters.training.progress_bars import progress_bars
    from trrouters.training.prompts import read_prompts
    from trrouters.training.rows import load_rows

    prompts = read_prompts(options.prompts, options.limit)
    settings = CollectSettings(max_tokens=options.max_tokens, horizon=options.horizon)
    with (
        open_pair(options.pair, sequences=options.batch, context=options.context) as pair,
        progress_bars() as progress,
    ):
        progress.started("collecting", len(prompts))
        paths = collect(pair, prompts, options.out, settings, progress=progress.advanced)
    rows = load_rows(options.out)
    return {
        "shards": len(paths),
        "prompts": len(prompts),
        "rows": len(rows),
        "agreement": round(float(rows.agrees.float().mean()), 4),
        "divergent": round(float((rows.divergent == 1).float().mean()), 4),
    }


def _train(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.checkpoint import save_checkpoint
    from trrouters.training.algorithms import ALGORITHMS
    from trrouters.training.fit import FitSettings
    from trrouters.training.progress_bars import progress_bars
    from trrouters.training.train_router import train_router

    name = options.algorithm.replace("-", "_")
    settings = FitSettings(
        epochs=options.epochs, learning_rate=options.learning_rate, seed=options.seed
    )
    with progress_bars() as progress:
        progress.started("training", settings.epochs * len(ALGORITHMS[name].losses))
        checkpoint = train_router(
            name,
            options.data,
            settings,
            architecture={"widths": options.widths} if options.widths else None,
            progress=progress.advanced,
        )
    save_checkpoint(checkpoint, options.out)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    facts = {key: checkpoint.training[key] for key in ("rows", "seconds", "validation")}
    return {
        "checkpoint": str(options.out),
        "bytes": size,
        "threshold": checkpoint.threshold,
        **facts,
    }


def _open(router: str, data: Path) -> RouterCheckpoint:
    """A checkpoint for the pair whose rows `data` holds."""
    from trrouters.checkpoint import load_checkpoint
    from trrouters.errors import CheckpointError
    from trrouters.training.algorithms import ALGORITHMS
    from trrouters.training.rows import load_collected

    checkpoint = load_checkpoint(router)
    if checkpoint.algorithm not in ALGORITHMS:
        raise CheckpointError(f"{router}: {checkpoint.algorithm!r} routers are not trained here")
    checkpoint.check_models(load_collected(data).pair)
    return checkpoint


def _calibrate(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.checkpoint import save_checkpoint
    from trrouters.errors import CheckpointError
    from trrouters.training.calibrate import calibrate_checkpoint, calibrate_entropy
    from trrouters.training.rows import load_rows

    rows = load_rows(options.data)
    aim = {"rate": options.rate, "recall": options.recall}
    if options.router == "r_stitch":
        return asdict(calibrate_entropy(rows, **aim))
    if options.router.startswith("package://"):
        raise CheckpointError(f"{options.router} belongs to a package: calibrate a copy of it")
    checkpoint, calibration = calibrate_checkpoint(_open(options.router, options.data), rows, **aim)
    save_checkpoint(checkpoint, Path(checkpoint.source))
    return asdict(calibration)


def _evaluate(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.training.evaluate import evaluate
    from trrouters.training.rows import load_rows

    rows = load_rows(options.data)
    report = evaluate([_open(router, options.data) for router in options.routers], rows)
    return {
        router: {key: round(value, 4) for key, value in measures.items()}
        for router, measures in report.items()
    }


def _import_r2r(options: argparse.Namespace) -> dict[str, Any]:
    from trrouters.checkpoint import save_checkpoint
    from trrouters.training.import_r2r import import_r2r

    checkpoint = import_r2r(options.file, large=options.large, small=options.small)
    save_checkpoint(checkpoint, options.out)
    return {"checkpoint": str(options.out), "threshold": checkpoint.threshold}
