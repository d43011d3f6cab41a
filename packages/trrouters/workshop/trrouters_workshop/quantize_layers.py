"""Quantise a GGUF's layers by llama.cpp, and leave its embedding as it is."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from trrouters.training.extra import TrainingExtraError
from trrouters_workshop.llama_cpp_sequence import llama_cpp_library

if TYPE_CHECKING:
    from pathlib import Path


def quantize_layers(path: Path, block_format: str) -> None:
    """Rewrite ``path`` with every matrix of its layers in ``block_format``.

    llama.cpp by itself would give some matrices more bits (Q5_K), for which a batch's logits are
    not those of its sequences alone; ``pure`` keeps to the one format.

    Args:
        path: a GGUF with a tied head.
        block_format: the name of a llama.cpp format, for example ``"IQ4_NL"``.

    Raises:
        TrainingExtraError: without the ``gguf`` package or llama-cpp-python.
        OSError: when llama.cpp cannot do it.
    """
    try:
        from gguf import GGUFReader
    except ImportError as missing:
        raise TrainingExtraError("gguf") from missing
    (embedding,) = (t for t in GGUFReader(path).tensors if t.name == "token_embd.weight")
    api = llama_cpp_library()
    parameters = api.llama_model_quantize_default_params()
    parameters.ftype = getattr(api, f"LLAMA_FTYPE_MOSTLY_{block_format}")
    parameters.pure = True
    parameters.allow_requantize = True
    parameters.token_embedding_type = int(embedding.tensor_type)
    parameters.output_tensor_type = int(embedding.tensor_type)
    target = path.with_name(f"{path.name}.quantized")
    try:
        names = str(path).encode(), str(target).encode()
        if (status := api.llama_model_quantize(*names, ctypes.byref(parameters))) != 0:
            raise OSError(f"llama.cpp cannot quantise {path} (status {status})")
        target.replace(path)
    finally:
        target.unlink(missing_ok=True)
