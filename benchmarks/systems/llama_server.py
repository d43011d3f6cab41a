"""llama.cpp's own server as a process, one for each model."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.systems.llama_server_process import Settings
from trsched.models.model_path import resolve_model_path
from trsched.models.requantize import cached_requantize

_START_S = 120.0
_STOP_S = 30.0


class LlamaServer:
    """One model behind llama.cpp's server; implements `SingleModelServer`.

    n_probs: the likeliest tokens, with their log-probabilities, that each reply lists.
    """

    path = "/completion"

    def __init__(self, port: int, settings: Settings, n_probs: int) -> None:
        self.port = port
        self.settings = settings
        self._n_probs = n_probs
        # The server picks response_fields by copying: with a list of tokens that costs more than
        # sending all the rest too.
        shown = (
            f'"n_probs":{n_probs}'
            if n_probs
            else '"return_tokens":true,"response_fields":["tokens","timings"]'
        )
        tail = f',"cache_prompt":true,"temperature":0,"ignore_eos":true,{shown}}}'
        self._tail = tail.encode()

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is."""
        return {
            "server": "llama.cpp's own, from the wheel xllamacpp",
            **msgspec.to_builtins(self.settings),
            "model": Path(self.settings.model).name,
            "n_probs": self._n_probs,
            "hidden_states": "not sent: the server cannot beside a completion",
        }

    def body(self, prompt: bytes, count: int, slot: int) -> bytes:
        """A request for `count` tokens; all steps go to the slot that has their KV."""
        return b'{"prompt":[%b],"n_predict":%d,"id_slot":%d%b' % (prompt, count, slot, self._tail)


def installed() -> bool:
    """Whether there is a llama.cpp server to start."""
    return importlib.util.find_spec("xllamacpp") is not None


def gguf_path(model: Mapping[str, Any]) -> str:
    """The file of `model`, as in a group's file, requantised where it says so."""
    path = resolve_model_path(model["path"], "path")
    return str(cached_requantize(path, model["quantize"]) if "quantize" in model else path)


@contextmanager
def llama_server(settings: Settings, *, n_probs: int = 0) -> Iterator[LlamaServer]:
    """The server, loaded and warm, until the block ends. Raises RuntimeError if it cannot start."""
    arguments = [sys.executable, "-m", "benchmarks.systems.llama_server_process"]
    # Threads that wait for a step must not spin on cores that the other server needs: as ours do.
    environment = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "1000", **os.environ}
    command = [*arguments, msgspec.json.encode(settings).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()  # empty when the process has ended
            if not address:
                raise RuntimeError(f"llama.cpp's server ended with {process.wait(_STOP_S)}")
            _wait_until_healthy(address, process)
            yield LlamaServer(int(address.rsplit(":", 1)[1]), settings, n_probs)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def llama_servers(
    models: Sequence[Mapping[str, Any]],
    *,
    concurrency: int,
    context: int,
    threads: int,
    n_probs: Sequence[int],
) -> Iterator[list[LlamaServer]]:
    """A server for each of `models` (as in a group's file, GGUF), until the block ends.

    threads: of each server.
    n_probs: for each model, how many of the likeliest tokens the client must see to decide.
    """
    with ExitStack() as stack:
        servers = []
        for model, probs in zip(models, n_probs, strict=True):
            settings = Settings(gguf_path(model), concurrency, context, threads)
            servers.append(stack.enter_context(llama_server(settings, n_probs=probs)))
        yield servers


def _wait_until_healthy(address: str, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, TimeoutError) as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"llama.cpp's server is not healthy: {error}") from error
            time.sleep(0.05)
