"""What the gateway adds to a request, against direct access and the proxies people use instead.

All stand before the same four mock upstreams, which answer from prepared bytes and share one
process; the clients are one process too. Requests are chats of one token each with a prompt never
asked before, over kept connections; streams have 64 tokens.

Ours runs three times: `minilm` (policy route-balance, MiniLM and nearest neighbours fitted on the
demo prompts, static TPOT), `prior` (the same without a predictor) and `round-robin`. Peers:
LiteLLM's proxy, vllm-router and sglang-router, each in an environment of its own, pinned in
benchmarks/proxy/peers.txt; `--peers none` for none. `--smoke` takes only those installed before.
`direct` is no proxy at all: what the machine, the upstreams and the clients allow.

- added_p50_ms, added_p99_ms: quantiles of a request through the gateway less those of direct ones,
  one after another, twenty to each proxy in turn; `_open`: at a fixed mean rate of arrivals.
- rps_64, rps_256: one-token requests a second with so many clients; rps_ratio_PEER is ours through
  theirs. cpu_ms_per_request_N: of the proxy alone; cpu_ratio_PEER: theirs through ours.
  predicted_share_N: of the requests, those that the predictor was done with; under more load than
  it can take the gateway decides the others by the models' means.
- tokens_per_second, cpu_s_per_million_tokens: of 64 streams as fast as they go.
- streams_held: most streams with a token every 20 ms, each, where 99 % come within 40 ms of the
  token before, nothing fails and at least 80 % of the tokens come, in one of two tries.
  added_ttft_ms_N: at N streams; worst_delay_ms_N: the longest gap less 20 ms.

Without an ending a figure is `minilm`'s; `_prior`, `_round_robin`, `_litellm` and so on are the
others'. Everything shares the machine's cores; CPU time is what that does not change.

Run ``python -m benchmarks.gateway`` (about eight minutes) or with ``--smoke``. Ends with one JSON
object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.proxy import phases
from benchmarks.proxy.own_gateway import fit_demo_predictor, four_models, instances, own_gateway
from benchmarks.proxy.peer_environments import installed
from benchmarks.proxy.peers import PEERS
from benchmarks.proxy.phases import COUNTS, ProxyFigures
from benchmarks.proxy.proxy_process import Proxy, StartError
from benchmarks.proxy.upstreams import Upstreams, mock_upstreams
from benchmarks.report.machine import machine

OURS = ("minilm", "prior", "round-robin")
UPSTREAMS = 4
UPSTREAM_MODEL = "small"
COLUMNS = (
    ("added p50", "added_p50_ms", "ms"),
    ("p99", "added_p99_ms", "ms"),
    ("open p50", "added_open_p50_ms", "ms"),
    ("p99", "added_open_p99_ms", "ms"),
    ("64 clients", "rps_64", "1/s"),
    ("CPU", "cpu_ms_per_request_64", "ms"),
    ("256 clients", "rps_256", "1/s"),
    ("CPU", "cpu_ms_per_request_256", "ms"),
    ("tokens", "tokens_per_second", "1/s"),
    ("CPU/1M", "cpu_s_per_million_tokens", "s"),
    ("streams", "streams_held", "held"),
    ("memory", "memory_mb", "MB"),
)
PACED_COLUMNS = tuple(
    column
    for count in COUNTS
    for column in (
        (f"{count}: tokens", f"paced_tokens_per_second_{count}", "1/s"),
        ("TTFT", f"added_ttft_ms_{count}", "+ms"),
        ("gap p99", f"gap_p99_ms_{count}", "ms"),
        ("worst", f"worst_delay_ms_{count}", "+ms"),
        ("CPU/1M", f"cpu_s_per_million_tokens_{count}", "s"),
    )
)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="less of everything, under a minute")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, or none")
    args = parser.parse_args()
    peers = [] if args.peers == "none" else args.peers.split(",")
    if unknown := sorted(set(peers) - set(PEERS)):
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    print(json.dumps({"machine": machine(), "upstreams": UPSTREAMS, "smoke": args.smoke}))
    missing: dict[str, str] = {}
    if args.smoke:
        missing = {name: "not installed" for name in peers if not installed(name)}
    with ExitStack() as stack:
        upstreams = stack.enter_context(mock_upstreams(UPSTREAMS))
        subjects = [ProxyFigures(Proxy("direct", upstreams.ports[0], None, UPSTREAM_MODEL, {}))]
        subjects += [ProxyFigures(stack.enter_context(ours(name, upstreams))) for name in OURS]
        for name in peers:
            if name in missing:
                continue
            try:
                start = PEERS[name](upstreams.urls, UPSTREAM_MODEL, False)
                peer = ProxyFigures(stack.enter_context(start))
                phases.check([peer])
                subjects.append(peer)
            except StartError as error:
                missing[name] = str(error)
        for each in subjects[1:]:
            print(json.dumps({"proxy": each.proxy.name, **each.proxy.configuration}))
        phases.check(subjects)
        measure(subjects, upstreams, smoke=args.smoke)
    report(subjects, missing)


@contextmanager
def ours(name: str, upstreams: Upstreams) -> Iterator[Proxy]:
    """One of OURS, until the block ends."""
    models = four_models()
    names = [str(model["name"]) for model in models]
    with tempfile.TemporaryDirectory() as folder:
        if name == "minilm":
            fit_demo_predictor(Path(folder))
        config: dict[str, Any] = {
            "policy": "round-robin" if name == "round-robin" else "route-balance",
            "predictor": folder if name == "minilm" else "none",
            "models": models,
            "instances": instances(upstreams.urls, names, UPSTREAM_MODEL),
        }
        with own_gateway(name, config) as proxy:
            yield proxy


def measure(subjects: Sequence[ProxyFigures], upstreams: Upstreams, *, smoke: bool) -> None:
    """Every part, all proxies in turns within each."""
    seconds, rounds = (0.4, 1) if smoke else (1.7, 3)
    counts, most = (COUNTS[:1], COUNTS[0]) if smoke else (COUNTS, 4096)
    phases.latency(subjects, 2 if smoke else 25)
    phases.open_latency(subjects, rate=25, seconds=seconds, rounds=rounds)
    for clients in counts:
        phases.throughput(subjects, clients, seconds, rounds)
    phases.saturation(subjects, counts[0], seconds, 1 if smoke else 2)
    for each in subjects:
        phases.paced(each, upstreams, 0.4 if smoke else 1.2, counts, most)
    phases.memory(subjects)


def added(subject: ProxyFigures, direct: ProxyFigures) -> dict[str, float]:
    """Its figures; latencies less those of direct access."""
    found = {}
    for name, value in subject.figures.items():
        latency = name.startswith(("p50_", "p99_", "open_p", "ttft_"))
        if not latency:
            found[name] = value
        elif subject is not direct:
            found[f"added_{name}"] = value - direct.figures[name]
        else:
            found[name] = value
    return found


def ratios(figures: dict[str, dict[str, float]]) -> dict[str, float]:
    """Of ours to each peer: requests a second, and CPU time a request the other way round."""
    found = {}
    for mine, peer, count in itertools.product(OURS, PEERS, COUNTS):
        us, them = figures.get(mine, {}), figures.get(peer, {})
        rps, cpu = f"rps_{count}", f"cpu_ms_per_request_{count}"
        if cpu in us and cpu in them:
            end = f"{_end(peer)}{'' if count == COUNTS[0] else f'_{count}'}{_end(mine)}"
            found[f"rps_ratio{end}"] = us[rps] / them[rps]
            found[f"cpu_ratio{end}"] = them[cpu] / us[cpu]
    return found


def _end(name: str) -> str:
    return "" if name == OURS[0] else "_" + name.replace("-", "_")


def report(subjects: Sequence[ProxyFigures], missing: dict[str, str]) -> None:
    """A table for people and a line for machines."""
    direct = subjects[0]
    figures = {each.proxy.name: added(each, direct) for each in subjects}
    for columns in (COLUMNS, PACED_COLUMNS):
        titles, units = (("", *(column[at] for column in columns)) for at in (0, 2))
        for heading in (titles, units):
            print(f"{heading[0]:14}" + "".join(f"{cell:>12}" for cell in heading[1:]))
        for name, found in figures.items():
            cells = [_cell(found.get(column[1])) for column in columns]
            print(f"{name:14}" + "".join(f"{cell:>12}" for cell in cells))
    print(
        f"direct: one at a time {direct.figures['p50_ms']:.3f} ms (p99"
        f" {direct.figures['p99_ms']:.3f}), TTFT at {COUNTS[0]} streams"
        f" {direct.figures[f'ttft_ms_{COUNTS[0]}']:.2f} ms"
    )
    for each in subjects:
        for count in COUNTS:
            if share := each.figures.get(f"predicted_share_{count}"):
                print(f"{each.proxy.name}: {share:.0%} predicted at {count} clients")
        if each.failures:
            print(f"{each.proxy.name} failed requests: {each.failures}")
    for name, why in missing.items():
        print(f"{name}: not measured: {why}")
    line = {
        f"{figure}{_end(name)}": round(value, 4)
        for name, found in figures.items()
        for figure, value in found.items()
        if math.isfinite(value)
    }
    line |= {figure: round(value, 4) for figure, value in ratios(figures).items()}
    cores = machine()["cores"]
    print(json.dumps({"benchmark": "gateway", "cores": cores, "missing": sorted(missing), **line}))


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
