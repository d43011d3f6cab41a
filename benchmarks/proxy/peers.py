"""The peers as processes, set up as their documentation advises where speed matters.

LiteLLM: one worker, production mode, no callbacks, no database, no key, its own fastest strategy
(simple-shuffle), its bundled price list. The Rust routers: a thread for each core, round robin or
power of two, retries and circuit breakers as they come.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.proxy.peer_environments import environment
from benchmarks.proxy.proxy_process import Proxy, free_port, running

Start = Callable[[Sequence[str], str, bool], AbstractContextManager[Proxy]]

_LITELLM_ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
}


@contextmanager
def _litellm(urls: Sequence[str], model: str, by_load: bool) -> Iterator[Proxy]:
    port = free_port()
    entries = [
        {
            "model_name": model,
            "litellm_params": {
                "model": f"openai/{model}",
                "api_base": f"{url}/v1",
                "api_key": "none",
                "input_cost_per_token": 6e-8,
                "output_cost_per_token": 6e-8,
            },
        }
        for url in urls
    ]
    strategy = "least-busy" if by_load else "simple-shuffle"
    settings: dict[str, Any] = {
        "model_list": entries,
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
        "router_settings": {"routing_strategy": strategy},
        "litellm_settings": {"set_verbose": False, "request_timeout": 600, "json_logs": True},
    }
    command = [str(environment("litellm") / "litellm"), "--host", "127.0.0.1", "--num_workers", "1"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "litellm.yaml")
        file.write_text(yaml.safe_dump(settings))
        command += ["--port", str(port), "--config", str(file)]
        with running(command, port, model, environment=_LITELLM_ENVIRONMENT) as pid:
            told = {"workers": 1, "environment": _LITELLM_ENVIRONMENT, **settings}
            yield Proxy("litellm", port, pid, model, {**told, "model_list": len(entries)})


@contextmanager
def _rust_router(
    name: str, command: Sequence[str], urls: Sequence[str], model: str, by_load: bool
) -> Iterator[Proxy]:
    port = free_port()
    policy = "power_of_two" if by_load else "round_robin"
    options = ["--policy", policy, "--log-level", "error", "--prometheus-host", "127.0.0.1"]
    options += ["--worker-startup-check-interval", "1", "--max-concurrent-requests", "65536"]
    own = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    program = str(environment(name) / command[0])
    with running(
        [program, *command[1:], *options, *own, "--worker-urls", *urls], port, model
    ) as pid:
        yield Proxy(name, port, pid, model, {"options": " ".join(options)})


def _vllm_router(urls: Sequence[str], model: str, by_load: bool) -> AbstractContextManager[Proxy]:
    return _rust_router("vllm-router", ["vllm-router"], urls, model, by_load)


def _sglang_router(urls: Sequence[str], model: str, by_load: bool) -> AbstractContextManager[Proxy]:
    return _rust_router("sglang-router", ["smg", "launch"], urls, model, by_load)


PEERS: dict[str, Start] = {
    "litellm": _litellm,
    "vllm-router": _vllm_router,
    "sglang-router": _sglang_router,
}
"""Each takes the upstreams' URLs, the model they serve, and whether to choose by load (else in
turn, or at random); raises StartError if it cannot be installed or started."""
