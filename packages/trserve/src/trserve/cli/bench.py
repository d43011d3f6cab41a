"""Declaration of `trserve bench`; `trserve.cli.main` adds it to the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trserve.cli.options import AsJson


def bench(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The server, e.g. http://127.0.0.1:8000.")
    ],
    rate: Annotated[
        float | None,
        typer.Option(metavar="R", help="Open loop: R requests a second, Poisson arrivals."),
    ] = None,
    burstiness: Annotated[
        float | None,
        typer.Option(
            metavar="B",
            help="With --rate: gamma arrivals, B the squared coefficient of variation of their "
            "gaps; above 1 they come in bursts. [default: 1, Poisson]",
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Closed loop: N clients that wait for their responses."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Open loop: arrivals and lengths of a trace, Azure's or Mooncake's.",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(metavar="X", help="With --trace: so many times as fast. [default: 1]"),
    ] = None,
    burst: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="N requests, all at once.")
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Send so many. [default: 100, or a trace's, or --duration]"
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Begin no request after that; those in flight may end."
        ),
    ] = None,
    warm_up: Annotated[
        int,
        typer.Option(
            "--warm-up",
            metavar="N",
            min=0,
            help="Made-up requests before, up to 8 at once, not measured.",
        ),
    ] = 0,
    max_in_flight: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Open loop: hold back what exceeds it. [default: no limit]"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of arrivals, lengths, made-up prompts.")
    ] = 0,
    endpoint: Annotated[str, typer.Option(metavar="WHICH", help="chat or completions.")] = "chat",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="[default: the first that the server lists]"),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON lines with `prompt` or `messages`, or a prompt a line."
        ),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="N|A:B",
            help="Words of made-up prompts, a token each for most models. [default: 128]",
        ),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option(metavar="N|A:B", help="max_tokens of each request. [default: 128]"),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", min=0.0, help="[default: not sent, so the server's]"),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Without it there is only the E2E latency.")
    ] = True,
    extra_body: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="More fields of each request: '{\"ignore_eos\": true}'."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:VALUE", help="A header of each request. Repeatable."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Better: the variable TRSERVE_API_KEY or OPENAI_API_KEY.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="A response that takes longer has failed."),
    ] = 600.0,
    slo: Annotated[
        str | None,
        typer.Option(
            metavar="OBJECTIVES", help="Count the goodput: ttft=0.5,tpot=0.05,e2e=10 (seconds)."
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every request's times (JSON lines).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Measure under load."""
    from trserve.bench.plan.load_plan import LoadOptions
    from trserve.bench.plan.request_plan import RequestOptions
    from trserve.cli.commands.bench import BenchOptions
    from trserve.cli.commands.bench import bench as run

    return run(
        BenchOptions(
            url=url,
            load=LoadOptions(
                rate=rate,
                burstiness=burstiness,
                clients=clients,
                trace=trace,
                speed=speed,
                burst=burst,
                requests=requests,
                duration=duration,
                max_in_flight=max_in_flight,
                seed=seed,
            ),
            requests=RequestOptions(
                endpoint=endpoint,
                model=model,
                prompts=prompts,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                temperature=temperature,
                stream=stream,
                extra_body=extra_body,
                headers=header or (),
                api_key=api_key,
                timeout=timeout,
            ),
            warm_up=warm_up,
            slo=slo,
            save=save,
            as_json=as_json,
        )
    )
