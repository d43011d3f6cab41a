"""Rewrite a GGUF in another tensor format, once, and keep the result.

llama.cpp aborts the process on some malformed files, and its log is one global callback, so the
work is done by a child process: ``python -m trsched.models.requantize SOURCE TARGET FTYPE N``.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FTYPES = ("BF16", "F16", "Q8_0", "Q5_1", "Q5_0", "IQ4_NL", "Q4_1", "Q4_0")
"""Formats :func:`requantize` writes. For all of them but F16 and BF16 llama.cpp's logits of a
sequence are the same alone and in a batch (flash attention on, BF16 KV cache)."""

_MAGIC = b"GGUF"
_LOG_LINES_SHOWN = 4


class QuantizeError(RuntimeError):
    """A file could not be rewritten; the message says which and why."""


def requantize(source: Path, target: Path, ftype: str, *, threads: int) -> None:
    """Write ``source`` to ``target`` with its matrices in ``ftype``.

    The target appears complete or not at all, and two processes may do this at once: the later
    one replaces the file with equal bytes. llama.cpp chooses the format of the embedding and of
    the output head itself (Q8_0 for SmolLM2's), norms stay F32.

    Args:
        source: a GGUF model, quantised or not; requantising from a coarse format loses a little.
        target: file to write; its directory is made when absent.
        ftype: one of :data:`FTYPES`.
        threads: worker threads, at least 1.

    Raises:
        QuantizeError: unknown format, unreadable or malformed source, or no space for the target.
        ValueError: ``threads`` below 1.
    """
    if threads < 1:
        raise ValueError(f"threads is {threads}, it must be at least 1")
    if ftype not in FTYPES:
        raise QuantizeError(f"cannot write the format {ftype!r}, only {', '.join(FTYPES)}")
    _check_magic(source)
    try:
        with _replacing(target) as temporary:
            arguments = [str(source), str(temporary), ftype, str(threads)]
            run = subprocess.run(
                [sys.executable, "-m", "trsched.models.requantize", *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                stdin=subprocess.DEVNULL,
            )
            if run.returncode != 0:
                raise QuantizeError(f"cannot rewrite {source} as {ftype}: {_last_lines(run)}")
    except OSError as error:
        raise QuantizeError(f"cannot write {target}: {error}") from error


def cached_requantize(
    source: Path, ftype: str, cache_dir: Path | None = None, *, threads: int | None = None
) -> Path:
    """The path of ``source`` in ``ftype``, rewritten now or found in the cache.

    The cached file's name holds the source's SHA-256, the format and llama.cpp's version, so
    another source or an upgrade makes a new file. The digest itself is remembered by the source's
    path, size and modification time: a warm start reads a few hundred bytes.

    Args:
        source: see :func:`requantize`.
        ftype: see :func:`requantize`.
        cache_dir: where to keep it; ``None`` means :func:`default_cache_dir`.
        threads: ``None`` means the CPUs this process may use.

    Raises:
        QuantizeError: as :func:`requantize`, and when llama-cpp-python is missing.
    """
    directory = default_cache_dir() if cache_dir is None else cache_dir
    digest = _digest(source, directory)
    # Only the kept start of the digest is in the name; 64 bits do for a user's own models.
    target = directory / f"{source.stem}.{digest[:16]}.{ftype}.llamacpp-{_library_version()}.gguf"
    if not target.is_file():
        requantize(source, target, ftype, threads=threads or len(os.sched_getaffinity(0)))
    return target


def default_cache_dir() -> Path:
    """``$XDG_CACHE_HOME/trserve``, or ``~/.cache/trserve`` when that is unset or not absolute."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "trserve"


def _check_magic(source: Path) -> None:
    try:
        with source.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise QuantizeError(f"cannot read {source}: {error.strerror}") from error
    if magic != _MAGIC:
        raise QuantizeError(f"{source} is not a GGUF file")


def _library_version() -> str:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError as error:
        raise QuantizeError(
            "llama-cpp-python is not installed: pip install 'trsched[llamacpp]'"
        ) from error


def _digest(source: Path, directory: Path) -> str:
    """SHA-256 of the source in hex, remembered under ``directory``."""
    try:
        place = source.resolve(strict=True)
        status = place.stat()
        seen: dict[str, str | int] = {
            "path": str(place),
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
        }
        note = directory / "digests" / f"{hashlib.sha256(bytes(place)).hexdigest()[:16]}.json"
        if (known := _remembered(note, seen)) is not None:
            return known
        with place.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise QuantizeError(f"cannot read {source}: {error.strerror}") from error
    try:
        with _replacing(note) as temporary:
            temporary.write_text(json.dumps({**seen, "sha256": digest}))
    except OSError as error:
        raise QuantizeError(f"cannot write the cache {directory}: {error}") from error
    return digest


def _remembered(note: Path, seen: dict[str, str | int]) -> str | None:
    """The digest in ``note`` if it was taken of the file as it is now."""
    try:
        known = json.loads(note.read_text())
    except (OSError, ValueError):
        return None  # absent or damaged: it is only a memo, and is written anew
    if not isinstance(known, dict) or any(known.get(key) != value for key, value in seen.items()):
        return None
    digest = known.get("sha256")
    return digest if isinstance(digest, str) and len(digest) == 64 else None


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file beside ``target`` that takes its place when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp's 0600 would hide it from a cache's other readers
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _last_lines(run: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
    said = " / ".join(lines[-_LOG_LINES_SHOWN:]) or "llama.cpp said nothing"
    return f"{said} (exit status {run.returncode})"


def _child(source: str, target: str, ftype: str, threads: str) -> int:
    """Quantise in this process; llama.cpp's log goes to standard error."""
    import ctypes

    import llama_cpp.llama_cpp as api

    parameters = api.llama_model_quantize_default_params()
    parameters.ftype = getattr(api, f"LLAMA_FTYPE_MOSTLY_{ftype}")
    parameters.nthread = int(threads)
    parameters.allow_requantize = True
    if ftype == "IQ4_NL":
        # by itself llama.cpp would give some matrices Q5_K, whose batched logits are not exact
        parameters.pure = True
        parameters.token_embedding_type = api.GGML_TYPE_Q8_0
        parameters.output_tensor_type = api.GGML_TYPE_Q8_0
    status = api.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters))
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(_child(*sys.argv[1:]))
