"""SGLang's own server as processes, one tree for each model."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_START_S = 300.0
_STOP_S = 30.0


class SglangServer:
    """One model behind SGLang's server; implements `SingleModelServer`."""

    path = "/generate"

    def __init__(self, port: int, arguments: Mapping[str, Any]) -> None:
        self.port = port
        self._arguments = dict(arguments)

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is."""
        return {"server": "sglang.launch_server, unmodified", **self._arguments}

    def body(self, prompt: bytes, count: int, slot: int) -> bytes:
        """A request for `count` tokens; the radix cache finds what its last step left."""
        del slot
        return (
            b'{"input_ids":[%b],"sampling_params":{"max_new_tokens":%d,"temperature":0,'
            b'"ignore_eos":true}}' % (prompt, count)
        )


def server_arguments(
    model: Mapping[str, Any], *, concurrency: int, context: int, gpu: int
) -> dict[str, Any]:
    """Fields of SGLang's ServerArgs for `model`, as in a group's file.

    SGLang's defaults (radix cache, overlapped scheduling where the device has it), with as much KV
    as the requests can fill. Token ids go in and come out: no tokenizer takes its time.
    """
    arguments = {
        "model_path": model["path"],
        "dtype": model.get("dtype", "auto"),
        "load_format": model.get("load_format", "auto"),
        "tp_size": model.get("tp", 1),
        "context_length": context,
        "max_running_requests": concurrency,
        "skip_tokenizer_init": True,
        "log_level": "error",
        "random_seed": 0,
    }
    if torch.cuda.is_available():
        return {**arguments, "base_gpu_id": gpu}
    return {
        **arguments,
        "device": "cpu",
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "disable_overlap_schedule": True,  # there is no second stream to overlap with
        "mem_fraction_static": 0.1,
        "max_total_tokens": 2 * concurrency * context,
    }


@contextmanager
def sglang_server(arguments: Mapping[str, Any], *, threads: int) -> Iterator[SglangServer]:
    """The server, loaded and warm, until the block ends. Raises RuntimeError if it cannot start."""
    port = _free_port()
    arguments = {**arguments, "host": "127.0.0.1", "port": port}
    command = [sys.executable, "-m", "benchmarks.systems.sglang_server_process"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        [*command, json.dumps(arguments)], env=environment, start_new_session=True
    ) as process:
        try:
            _wait_until_healthy(port, process)
            yield SglangServer(port, arguments)
        finally:
            _stop(process)


@contextmanager
def sglang_servers(
    models: Sequence[Mapping[str, Any]], *, concurrency: int, context: int, threads: int
) -> Iterator[list[SglangServer]]:
    """A server for each of `models` (as in a group's file), until the block ends."""
    with ExitStack() as stack:
        servers = []
        gpu = 0
        for model in models:
            arguments = server_arguments(model, concurrency=concurrency, context=context, gpu=gpu)
            gpu += arguments["tp_size"]
            servers.append(stack.enter_context(sglang_server(arguments, threads=threads)))
        yield servers


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"SGLang's server is not healthy: {error}") from error
            time.sleep(0.2)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The whole tree, which is a process group of its own."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(_STOP_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
