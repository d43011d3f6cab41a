"""`trserve chat`: a conversation in the terminal, or one question."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import typer

from trsched.errors import ConfigError
from trserve.cli.chat.client import Answer, ChatClient, ChatError, Message, Sampling
from trserve.cli.chat.view import ChatView, answer_json
from trserve.server.deployment import Deployment

_COMMANDS = "/reset forgets the conversation, /quit leaves"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What to ask and how to show it.

    prompt: None to converse.
    system: a message before all others.
    sampling: how answers are made.
    as_json: print one document once the answer is there.
    """

    prompt: str | None
    system: str | None
    sampling: Sampling
    as_json: bool


def chat_with_server(options: ChatOptions, url: str, api_key: str | None) -> int:
    """Chat with a running server. Raises ConfigError naming `--url` when there is none."""
    try:
        client = ChatClient(url, api_key)
    except ChatError as error:
        raise ConfigError("--url", str(error)) from error
    with client:
        return _chat(options, client)


def chat_with_deployment(options: ChatOptions, deployment: Deployment) -> int:
    """Load the models, chat, unload them."""
    from trserve.cli.chat.local_server import local_server

    with local_server(deployment) as (url, api_key), ChatClient(url, api_key) as client:
        return _chat(options, client)


def _chat(options: ChatOptions, client: ChatClient) -> int:
    session = Session(client, options)
    prompt = options.prompt
    if prompt is None and not sys.stdin.isatty():
        prompt = sys.stdin.read()
    if prompt is None and options.as_json:
        raise ConfigError("--json", "needs --prompt TEXT, or the prompt on standard input")
    return session.converse() if prompt is None else session.ask_once(prompt)


class Session:
    """A conversation and its history."""

    def __init__(self, client: ChatClient, options: ChatOptions) -> None:
        self._client = client
        self._options = options
        self._view = ChatView()
        self._messages: list[Message] = []
        self._reset()

    def ask_once(self, prompt: str) -> int:
        """Print the answer to one question."""
        if not prompt.strip():
            raise ConfigError("--prompt", "must not be empty")
        try:
            answer = self._ask(prompt, quiet=self._options.as_json)
        except ChatError as error:
            typer.echo(f"trserve: {error}", err=True)
            return 1
        if self._options.as_json:
            typer.echo(answer_json(answer))
        return 0

    def converse(self) -> int:
        """Ask and answer until the user leaves."""
        import readline  # noqa: F401 - gives input() a history and line editing

        self._view.legend(self._client.models)
        self._view.note(_COMMANDS)
        while True:
            try:
                line = input("\n> ").strip()
            except (EOFError, KeyboardInterrupt):
                self._view.note("")
                return 0
            if line == "/quit":
                return 0
            if line == "/reset":
                self._reset()
                self._view.note("The conversation is forgotten.")
            elif line.startswith("/") and " " not in line:
                self._view.note(f"{line} is not known: {_COMMANDS}")
            elif line:
                self._turn(line)

    def _turn(self, line: str) -> None:
        try:
            self._ask(line, quiet=False)
        except ChatError as error:
            self._view.note(f"\n{error}")

    def _reset(self) -> None:
        system = self._options.system
        self._messages = [] if system is None else [{"role": "system", "content": system}]

    def _ask(self, prompt: str, *, quiet: bool) -> Answer:
        """Ctrl-C ends the answer; what came so far stays in the conversation."""
        asked = [*self._messages, {"role": "user", "content": prompt}]
        answer = Answer(self._client.models)
        fragments = self._client.ask(asked, self._options.sampling, answer, by_token=not quiet)
        try:
            for fragment in fragments:
                if not quiet:
                    self._view.fragment(fragment)
        except KeyboardInterrupt:
            if self._options.prompt is not None:
                raise
            answer.finish_reason = "Ctrl-C"
        finally:
            fragments.close()
        self._messages = [*asked, {"role": "assistant", "content": answer.text}]
        if not quiet:
            self._view.summary(answer)
        return answer
