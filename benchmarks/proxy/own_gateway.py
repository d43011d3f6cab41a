"""`trserve gateway` as a process, in the configurations that are compared."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.proxy.proxy_process import Proxy, free_port, running
from rbalance.demo import DEMO_PROMPTS
from rbalance.demo.generate import MODELS

_PRICES = (0.06, 0.07, 0.15, 0.39)
_TPOT_S = (0.0123, 0.0206, 0.0184, 0.0474)
_QUALITY = (0.5, 0.6, 0.65, 0.75)


def fit_demo_predictor(folder: Path) -> None:
    """What `rbalance fit` makes of the demo prompts: MiniLM and nearest neighbours."""
    program = str(Path(sys.executable).with_name("rbalance"))
    command = [program, "fit", str(DEMO_PROMPTS), "--out", str(folder)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def four_models() -> list[dict[str, Any]]:
    """The models of the demo prompts, with the article's prices and static TPOT."""
    return [
        {
            "name": name,
            "quality": quality,
            "length": 64,
            "price_in": price,
            "price_out": price,
            "tpot_s": tpot_s,
        }
        for name, quality, price, tpot_s in zip(MODELS, _QUALITY, _PRICES, _TPOT_S, strict=True)
    ]


def instances(
    urls: Sequence[str], models: Sequence[str], upstream_model: str
) -> list[dict[str, Any]]:
    """One for each URL, of each model in turn."""
    return [
        {
            "name": f"i{at}",
            "model": models[at % len(models)],
            "url": url,
            "upstream_model": upstream_model,
        }
        for at, url in enumerate(urls)
    ]


@contextmanager
def own_gateway(name: str, config: dict[str, Any]) -> Iterator[Proxy]:
    """Serve `config`, as in a gateway's file, until the block ends. Raises StartError."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "gateway.yaml")
        server = {"host": "127.0.0.1", "port": port, "log_level": "warning", "drain_timeout": 1}
        file.write_text(yaml.safe_dump({"server": server, **config}))
        command = [sys.executable, "-m", "trserve", "gateway", "--config", str(file)]
        with running(command, port, "auto") as pid:
            predicts = config.get("predictor", "none") != "none"
            yield Proxy(name, port, pid, "auto", config, predicts)
