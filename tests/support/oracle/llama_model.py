"""A GGUF model alone on llama.cpp: one sequence, no batching, written against the C API."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize
from llama_cpp import llama_cpp as api
from numpy.typing import NDArray

from tests.support.oracle.reference_routers import Sight
from tests.support.oracle.sequential import reference_sample
from trsched.request import SamplingParams


class SoloLlama:
    """Keeps the KV of the last prompt and runs only what follows the common prefix.

    sees: also keeps what a trained router sees of the last proposal, in `sight`.
    """

    sight: Sight

    def __init__(self, path: Path, index: int, context: int, *, sees: bool = False) -> None:
        self._index = index
        self._embeddings = _embeddings(path) if sees else None
        model_params = api.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self._model = api.llama_model_load_from_file(os.fsencode(path), model_params)
        params = api.llama_context_default_params()
        params.n_ctx = context
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = 2
        params.kv_unified = False
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.type_k = params.type_v = 30  # BF16
        params.embeddings = sees
        params.pooling_type = api.LLAMA_POOLING_TYPE_NONE
        self._context = api.llama_init_from_model(self._model, params)
        self._vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))
        self._batch = api.llama_batch_init(context, 0, 1)
        self._held: list[int] = []

    def propose(
        self, tokens: Sequence[int], params: SamplingParams
    ) -> tuple[int, NDArray[np.float32]]:
        logits = self._logits(list(tokens))
        token = reference_sample(logits, params, len(tokens), self._index)
        if self._embeddings is not None:
            row = api.llama_get_embeddings_ith(self._context, self._batch.n_tokens - 1)
            embedding = self._embeddings(token)
            hidden = np.ctypeslib.as_array(row, shape=embedding.shape)
            self.sight = Sight(*(a.astype(np.float64) for a in (logits, hidden, embedding)))
        return token, logits

    def close(self) -> None:
        api.llama_batch_free(self._batch)
        api.llama_free(self._context)
        api.llama_model_free(self._model)

    def _logits(self, tokens: list[int]) -> NDArray[np.float32]:
        same = 0
        while same < min(len(tokens) - 1, len(self._held)) and tokens[same] == self._held[same]:
            same += 1
        api.llama_memory_seq_rm(api.llama_get_memory(self._context), 0, same, -1)
        fresh = tokens[same:]
        for i, token in enumerate(fresh):
            self._batch.token[i] = token
            self._batch.pos[i] = same + i
            self._batch.n_seq_id[i] = 1
            self._batch.seq_id[i][0] = 0
            self._batch.logits[i] = i == len(fresh) - 1
        self._batch.n_tokens = len(fresh)
        assert api.llama_decode(self._context, self._batch) == 0
        self._held = tokens
        row = api.llama_get_logits_ith(self._context, len(fresh) - 1)
        return np.ctypeslib.as_array(row, shape=(self._vocab,)).copy()


def _embeddings(path: Path) -> Callable[[int], NDArray[np.float32]]:
    tensors = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    table = tensors["token_embd.weight"]
    return lambda token: dequantize(table.data[token : token + 1], table.tensor_type)[0]
