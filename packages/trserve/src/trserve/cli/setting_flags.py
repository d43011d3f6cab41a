"""Flags of commands, made from the fields of the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any

import typer

from trserve.settings.server_settings import Settings
from trserve.settings.setting import Setting

Command = Callable[..., int]


def takes_settings(*models: type[Settings]) -> Callable[[Command], Command]:
    """The command has a flag for each of these settings; its parameter `flags` gets them.

    They are a dictionary by the settings' names; None is what was not given.
    """
    settings = {name: each for model in models for name, each in model.settings().items()}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_flags(**given: Any) -> int:
            flags = {name: given.pop(name) for name in settings}
            return command(**given, flags=flags)

        signature = inspect.signature(command, eval_str=True)
        parameters = []
        for parameter in signature.parameters.values():
            if parameter.name == "flags":
                parameters += [_parameter(setting) for setting in settings.values()]
            else:
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
        # both are where typer looks
        with_flags.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        with_flags.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_flags

    return decorate


def _parameter(setting: Setting) -> Parameter:
    names = () if setting.shown.off is None else (f"{setting.flag}/{setting.shown.off}",)
    choices = list(setting.choices)
    option = typer.Option(
        *names,
        metavar=setting.shown.metavar,
        help=help_of(setting),
        autocompletion=(lambda: choices) if choices else None,
    )
    kind: Any = setting.flag_type
    annotation = Annotated[kind | None, option]
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def help_of(setting: Setting) -> str:
    """The description as a sentence, with the default."""
    description = setting.field.description or ""
    sentences = [f"{description[0].upper()}{description[1:]}."]
    if setting.secret:
        sentences.append(f"Prefer the variable {setting.variable}: others can see flags.")
    if setting.flag_type is not bool and setting.default_text != "none":
        sentences.append(f"[default: {setting.default_text}]")
    return " ".join(sentences)
