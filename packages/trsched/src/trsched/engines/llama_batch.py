"""What llama.cpp is given to run at once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from trsched.models.llamacpp_library import api


class LlamaBatch:
    """A `llama_batch` over numpy arrays, filled by slices."""

    def __init__(self, size: int) -> None:
        self._tokens = np.zeros(size, dtype=np.int32)
        self._positions = np.zeros(size, dtype=np.int32)
        self._counts = np.ones(size, dtype=np.int32)
        self._ids = np.zeros(size, dtype=np.int32)
        self._id_pointers = self._ids.ctypes.data + 4 * np.arange(size, dtype=np.uintp)
        self._outputs = np.zeros(size, dtype=np.int8)
        self.struct = api.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(ctypes.POINTER(api.llama_token)),
            embd=None,
            pos=self._positions.ctypes.data_as(ctypes.POINTER(api.llama_pos)),
            n_seq_id=self._counts.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=self._id_pointers.ctypes.data_as(
                ctypes.POINTER(ctypes.POINTER(api.llama_seq_id))
            ),
            logits=self._outputs.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def clear(self) -> None:
        self.struct.n_tokens = 0

    def add(self, seq: int, tokens: Sequence[int], position: int, output_last: bool) -> None:
        start = self.struct.n_tokens
        end = start + len(tokens)
        self._tokens[start:end] = tokens
        self._positions[start:end] = range(position, position + len(tokens))
        self._ids[start:end] = seq
        self._outputs[start:end] = 0
        self._outputs[end - 1] = output_last
        self.struct.n_tokens = end
