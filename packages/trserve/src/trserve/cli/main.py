"""The `trserve` command. Declarations: what a command does is imported when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from trsched.errors import ConfigError, TrschedError
from trserve.cli import bench, gateway, help_texts, tuning
from trserve.cli.options import AsJson, Changes, Config, Preset
from trserve.cli.setting_flags import takes_settings
from trserve.settings.server_settings import GroupSettings, ServerSettings

BAD_CONFIGURATION = 2
INTERRUPTED = 130

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
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
@takes_settings(ServerSettings, GroupSettings)
def launch(
    preset: Preset = None, config: Config = None, changes: Changes = None, *, flags: dict[str, Any]
) -> int:
    """Serve until stopped."""
    from trserve.server.deployment import load_deployment
    from trserve.server.launcher import launch as run

    deployment = load_deployment(preset=preset, config=config, flags=flags, changes=changes or ())
    with deployment.origin.locating():
        return run(deployment)


@app.command(help=help_texts.CHAT, short_help="Chat in the terminal, each model in its colour.")
@takes_settings(GroupSettings)
def chat(
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A running server, e.g. http://127.0.0.1:8000."),
    ] = None,
    preset: Preset = None,
    config: Config = None,
    changes: Changes = None,
    *,
    flags: dict[str, Any],
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
        float, typer.Option(metavar="T", min=0.0, help="0 takes the likeliest token.")
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
            raise ConfigError("--url", "a running server has its models: leave out --preset & co.")
        return chat_with_server(options, url, api_key or os.environ.get("TRSERVE_API_KEY"))
    from trserve.server.deployment import load_deployment

    if preset is None and config is None:
        preset = "smol-rstitch"
    deployment = load_deployment(preset=preset, config=config, flags=flags, changes=changes or ())
    with deployment.origin.locating():
        return chat_with_deployment(options, deployment)


@app.command(help=help_texts.MODELS, short_help="List presets and routers, and what is missing.")
def models(as_json: AsJson = False) -> int:
    """List what there is."""
    from trserve.cli.commands.models import list_models

    return list_models(as_json=as_json)


@app.command(help=help_texts.CHECK, short_help="Say whether a configuration can be served.")
@takes_settings(GroupSettings)
def check(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="Your own configuration (YAML).")
    ] = None,
    preset: Preset = None,
    changes: Changes = None,
    *,
    flags: dict[str, Any],
    as_json: AsJson = False,
) -> int:
    """Check without starting."""
    from trserve.cli.commands.check import check_deployment
    from trserve.server.deployment import load_deployment

    deployment = load_deployment(preset=preset, config=config, flags=flags, changes=changes or ())
    with deployment.origin.locating():
        return check_deployment(deployment, as_json=as_json)


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
    except TrschedError as error:
        from trserve.cli.install_hint import told

        return _complain(told(error), BAD_CONFIGURATION if isinstance(error, ConfigError) else 1)


def _complain(message: str, status: int) -> int:
    typer.echo(f"trserve: {' '.join(message.split())}", err=True)
    return status
