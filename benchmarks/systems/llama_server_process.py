"""llama.cpp's own HTTP server, unmodified, in this process: ``python -m … SETTINGS``.

SETTINGS is a JSON object, see `Settings`. Prints the address it listens on, one line, when the
model is loaded and warm; stops at SIGINT. The server is the one of the wheel `xllamacpp`, llama.cpp
prebuilt for any x86-64 with AVX2.
"""

from __future__ import annotations

import signal
import sys

import msgspec


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the server is given.

    model: GGUF file.
    slots: requests decoded at once.
    context: tokens of each slot.
    threads: of a step.
    draft_model: GGUF of a smaller model that proposes up to `draft_max` tokens a step for `model`
        to verify, while it gives each a probability of `draft_p_min` at least (None: no
        speculation; the other two default to llama.cpp's own).
    """

    model: str
    slots: int
    context: int
    threads: int
    draft_model: str | None = None
    draft_max: int = 3
    draft_p_min: float = 0.0


def main() -> None:
    """Serve until SIGINT."""
    import xllamacpp

    stops = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # the server's threads inherit it
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    params.kv_unified = False
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.cache_ram_mib = 0  # prompts of other requests are not kept aside
    params.n_threads_http = settings.slots + 2  # a kept connection holds one
    params.verbosity = -1
    if settings.draft_model is not None:
        draft = params.speculative.draft
        draft.mparams.path = settings.draft_model
        draft.n_max = settings.draft_max
        draft.p_min = settings.draft_p_min
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = settings.threads
        kinds = xllamacpp.common_speculative_type
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.sigwait(stops)


if __name__ == "__main__":
    main()
