"""Write a student as a self-contained GGUF: its weights, the teacher's vocabulary and template.

Everything but the layer count and the tensors is copied from the teacher's file, so that the two
have the same token texts, token types, special ids and chat template: a token id means the same
to both, which token-level routing rests on.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trrouters.training.extra import TrainingExtraError
from trrouters_workshop.quantize_layers import quantize_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "IQ4_NL", "Q4_1", "Q4_0")
"""Tensor formats of the layers; all but IQ4_NL also of the embedding."""

EMBEDDING = "token_embd.weight"
_NOT_COPIED = {"general.architecture", "general.file_type", "general.name", "general.size_label"}


def export_gguf(
    weights: Mapping[str, NDArray[np.float32]],
    teacher: Path,
    target: Path,
    *,
    block_format: str,
    embedding_format: str | None = None,
    name: str = "smollm2-slm",
) -> None:
    """Write ``weights`` to ``target``, atomically.

    Args:
        weights: GGUF tensor names to float32 arrays, matrices as ``[out, in]``. The embedding
            may be absent: it is then the teacher's.
        teacher: GGUF that gives the metadata, and the embedding's bytes unchanged when the
            weights have none and no other format is asked for.
        target: file to write; replaced when it exists.
        block_format: one of :data:`FORMATS` for the matrices of the layers (norms stay F32).
        embedding_format: the same for the embedding; ``None`` keeps the teacher's bytes.
        name: ``general.name`` of the new model.

    Raises:
        TrainingExtraError: without the ``gguf`` package.
        ValueError: on an unknown format, no layers, or gaps in their numbering.
    """
    try:
        import gguf
        from gguf import quants
    except ImportError as missing:
        raise TrainingExtraError("gguf") from missing
    for wanted in (block_format, embedding_format):
        if wanted is not None and wanted not in FORMATS:
            raise ValueError(f"format {wanted!r} is not one of {', '.join(FORMATS)}")
    if embedding_format == "IQ4_NL":
        raise ValueError("the embedding cannot be written as IQ4_NL")
    layers = _count_layers(weights)
    reader = gguf.GGUFReader(teacher)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(unfinished)
    try:
        writer = gguf.GGUFWriter(temporary, "llama")
        writer.add_name(name)
        # gguf cannot write IQ4_NL: llama.cpp makes it of BF16 afterwards
        written = "BF16" if block_format == "IQ4_NL" else block_format
        writer.add_file_type(_file_type(gguf, written))
        _copy_metadata(gguf, reader, writer, layers)

        def add(tensor: str, values: NDArray[np.float32], form: str) -> None:
            kind = gguf.GGMLQuantizationType[form]
            writer.add_tensor(tensor, quants.quantize(values, kind), raw_dtype=kind)

        _add_embedding(gguf, reader, writer, weights, embedding_format, add)
        for tensor, values in weights.items():
            if tensor != EMBEDDING:
                add(tensor, values, "F32" if values.ndim == 1 else written)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        if block_format == "IQ4_NL":
            quantize_layers(temporary, block_format)
        temporary.chmod(0o644)  # mkstemp's 0600 would hide it from other readers
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def from_hugging_face(
    state: Mapping[str, NDArray[np.float32]], *, heads: int, kv_heads: int
) -> dict[str, NDArray[np.float32]]:
    """Rename Hugging Face's Llama tensors to GGUF's, and interleave the rotary pairs.

    Args:
        state: ``model.layers.N...`` names to float32 arrays; an LM head is ignored (it is tied).
        heads: number of query heads.
        kv_heads: number of key and value heads.

    Raises:
        KeyError: on a tensor that is not a Llama's.
    """
    fixed = {"model.embed_tokens.weight": EMBEDDING, "model.norm.weight": "output_norm.weight"}
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    renamed: dict[str, NDArray[np.float32]] = {}
    for key, values in state.items():
        if key == "lm_head.weight":
            continue
        if key in fixed:
            renamed[fixed[key]] = values
            continue
        layer, _, rest = key.removeprefix("model.layers.").partition(".")
        part = parts[rest.removesuffix(".weight")]
        if part in ("attn_q", "attn_k"):
            values = _interleave(values, heads if part == "attn_q" else kv_heads)
        renamed[f"blk.{int(layer)}.{part}.weight"] = values
    return renamed


def load_student(directory: Path) -> tuple[dict[str, NDArray[np.float32]], int, int]:
    """A Hugging Face Llama's tensors as float32, its query heads and its key-value heads.

    Args:
        directory: holds ``config.json`` and ``model.safetensors``.

    Raises:
        TrainingExtraError: without safetensors or torch.
        OSError: when a file is missing.
    """
    try:
        from safetensors.torch import load_file
    except ImportError as missing:
        raise TrainingExtraError(missing.name or "safetensors") from missing
    config = json.loads((directory / "config.json").read_text())
    state = load_file(directory / "model.safetensors")
    arrays = {name: value.float().numpy() for name, value in state.items()}
    return arrays, config["num_attention_heads"], config["num_key_value_heads"]


def _interleave(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a head from halves (HF) to pairs (llama.cpp)."""
    rows, columns = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


def _count_layers(weights: Mapping[str, NDArray[np.float32]]) -> int:
    numbers = {int(key.split(".")[1]) for key in weights if key.startswith("blk.")}
    if not numbers or numbers != set(range(len(numbers))):
        raise ValueError(f"layers must be numbered from 0 without gaps, found {sorted(numbers)}")
    return len(numbers)


def _file_type(gguf: Any, form: str) -> int:
    prefix = "ALL" if form == "F32" else "MOSTLY"
    return int(gguf.LlamaFileType[f"{prefix}_{form}"])


def _copy_metadata(gguf: Any, reader: Any, writer: Any, layers: int) -> None:
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in _NOT_COPIED:
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = layers if key == "llama.block_count" else field.contents()
        writer.add_key_value(key, value, kind, sub_type=inner)


def _add_embedding(
    gguf: Any,
    reader: Any,
    writer: Any,
    weights: Mapping[str, NDArray[np.float32]],
    form: str | None,
    add: Any,
) -> None:
    own = weights.get(EMBEDDING)
    given = next(tensor for tensor in reader.tensors if tensor.name == EMBEDDING)
    if form is None:
        # Copied bytes need no second rounding, and make the two models' tokens literally equal.
        writer.add_tensor(EMBEDDING, given.data, raw_dtype=given.tensor_type)
    else:
        values = gguf.dequantize(given.data, given.tensor_type) if own is None else own
        add(EMBEDDING, values, form)
