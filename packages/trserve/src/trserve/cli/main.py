"""The `trserve` command. Only declarations: what a command needs is imported when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trserve.cli import bench, gateway, help_texts, tuning
from trserve.cli.options import (
    AccessLog,
    ApiKey,
    AsJson,
    Changes,
    Config,
    Context,
    DelayedBatching,
    DrainTimeout,
    Host,
    JsonLogs,
    KvMemory,
    LoadFormat,
    LogLevel,
    MaxActive,
    MaxBody,
    Mode,
    Port,
    Preset,
    ReadyFile,
    RequestTimeout,
)

BAD_CONFIGURATION = 2
INTERRUPTED = 130

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True, help=help_texts.ROOT)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        typer.echo(f"trserve {installed_version('trserve')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(help=help_texts.LAUNCH, short_help="Start the server.")
def launch(
    preset: Preset = None,
    config: Config = None,
    changes: Changes = None,
    host: Host = None,
    port: Port = None,
    api_key: ApiKey = None,
    served_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The model's name for clients. [default: the configuration's]"
        ),
    ] = None,
    context: Context = None,
    kv_memory: KvMemory = None,
    max_active: MaxActive = None,
    max_queue: Annotated[
        int | None, typer.Option(metavar="N", help="Requests that may wait for their turn.")
    ] = None,
    mode: Mode = None,
    delayed_batching: DelayedBatching = None,
    load_format: LoadFormat = None,
    request_timeout: RequestTimeout = None,
    max_body: MaxBody = None,
    drain_timeout: DrainTimeout = None,
    log_level: LogLevel = None,
    json_logs: JsonLogs = None,
    access_log: AccessLog = None,
    ready_file: ReadyFile = None,
) -> int:
    """Serve until stopped."""
    from trserve.server.deployment import load_deployment
    from trserve.server.launcher import launch as run

    flags = {
        "host": host,
        "port": port,
        "api_key": api_key,
        "served_name": served_name,
        "request_timeout": request_timeout,
        "max_body": max_body,
        "drain_timeout": drain_timeout,
        "log_level": log_level,
        "json_logs": json_logs,
        "access_log": access_log,
        "ready_file": ready_file,
        "context": context,
        "kv_memory": kv_memory,
        "max_active": max_active,
        "max_queue": max_queue,
        "mode": mode,
        "delayed_batching": delayed_batching,
        "load_format": load_format,
    }
    return run(load_deployment(preset=preset, config=config, flags=flags, changes=changes or ()))


@app.command(help=help_texts.CHAT, short_help="Chat in the terminal, each model in its colour.")
def chat(
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A running server, e.g. http://127.0.0.1:8000."),
    ] = None,
    preset: Preset = None,
    config: Config = None,
    changes: Changes = None,
    context: Context = None,
    kv_memory: KvMemory = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="The running server's key. Better: the variable TRSERVE_API_KEY."
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Ask this, print the answer, leave.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="A system message.")] = None,
    max_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Longest answer, in tokens.")
    ] = 512,
    temperature: Annotated[
        float, typer.Option(metavar="T", min=0.0, help="0 takes the likeliest token. [default: 0]")
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The same seed gives the same answer.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Converse, or ask once."""
    from trserve.cli.chat.client import Sampling
    from trserve.cli.commands.chat import ChatOptions, chat_with_deployment, chat_with_server

    options = ChatOptions(prompt, system, Sampling(max_tokens, temperature, seed), as_json)
    if url is not None:
        if preset is not None or config is not None or changes:
            from trsched.errors import ConfigError

            raise ConfigError("--url", "a running server has its models: leave out --preset & co.")
        return chat_with_server(options, url, api_key or os.environ.get("TRSERVE_API_KEY"))
    from trserve.server.deployment import load_deployment

    if preset is None and config is None:
        preset = "smol-rstitch"
    flags = {"context": context, "kv_memory": kv_memory}
    return chat_with_deployment(
        options, load_deployment(preset=preset, config=config, flags=flags, changes=changes or ())
    )


@app.command(help=help_texts.MODELS, short_help="List presets and routers, and what is missing.")
def models(as_json: AsJson = False) -> int:
    """List what there is."""
    from trserve.cli.commands.models import list_models

    return list_models(as_json=as_json)


@app.command(help=help_texts.CHECK, short_help="Say whether a configuration can be served.")
def check(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="Your own configuration (YAML).")
    ] = None,
    preset: Preset = None,
    changes: Changes = None,
    context: Context = None,
    kv_memory: KvMemory = None,
    max_active: MaxActive = None,
    mode: Mode = None,
    delayed_batching: DelayedBatching = None,
    load_format: LoadFormat = None,
    as_json: AsJson = False,
) -> int:
    """Check without starting."""
    from trserve.cli.commands.check import check_deployment
    from trserve.server.deployment import load_deployment

    flags = {
        "context": context,
        "kv_memory": kv_memory,
        "max_active": max_active,
        "mode": mode,
        "delayed_batching": delayed_batching,
        "load_format": load_format,
    }
    return check_deployment(
        load_deployment(preset=preset, config=config, flags=flags, changes=changes or ()),
        as_json=as_json,
    )


app.command(help=help_texts.PROFILE, short_help="Measure the models' latencies by batch size.")(
    tuning.profile
)
app.command(help=help_texts.TUNE, short_help="Find the best batching thresholds.")(tuning.tune)
app.command(help=help_texts.GATEWAY, short_help="Stand in front of servers; choose one each time.")(
    gateway.gateway
)
app.command(help=help_texts.KEY, short_help="Make a key for a client of the gateway.")(gateway.key)
app.command(help=help_texts.BENCH, short_help="Load a server and measure its latencies.")(
    bench.bench
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status. Bad configuration: 2 and one line on stderr."""
    try:
        return int(app(args=argv, prog_name="trserve", standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _complain(error.format_message(), BAD_CONFIGURATION)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of our output left (`| head`); keep the interpreter's last flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from trsched.errors import ConfigError, TrschedError
        from trserve.cli.install_hint import told

        if isinstance(error, TrschedError):
            return _complain(
                told(error), BAD_CONFIGURATION if isinstance(error, ConfigError) else 1
            )
        raise


def _complain(message: str, status: int) -> int:
    typer.echo(f"trserve: {' '.join(message.split())}", err=True)
    return status
