"""A short name for a model's weights, to tell whether a router was trained for them."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

_SAMPLES = 64
_SAMPLE_BYTES = 1 << 16


def weights_fingerprint(*paths: Path) -> str:
    """Of a model's files: their sizes and 64 pieces of 64 KiB spread over each (all, if small).

    Fine-tunes of one model differ nearly everywhere, so that they differ here; a 40 GB file is read
    as quickly as a small one. Raises OSError.
    """
    each = []
    for path in paths:
        status = path.stat()
        each.append(_fingerprint(path, status.st_size, status.st_mtime_ns))
    if len(each) == 1:
        return each[0]
    return f"files-{hashlib.sha256(' '.join(each).encode()).hexdigest()[:16]}"


@lru_cache(maxsize=64)
def _fingerprint(path: Path, size: int, _mtime_ns: int) -> str:
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    kind = "file"
    last = max(0, size - _SAMPLE_BYTES)
    with path.open("rb") as file:
        for sample in range(_SAMPLES):
            file.seek(last * sample // (_SAMPLES - 1))
            piece = file.read(_SAMPLE_BYTES)
            digest.update(piece)
            if sample == 0 and piece.startswith(b"GGUF"):
                kind = "gguf"
    return f"{kind}-{digest.hexdigest()[:16]}"
