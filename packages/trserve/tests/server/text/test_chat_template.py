from __future__ import annotations

import datetime as dt

import pytest

from tests.support.trserve.demo_server import demo_server
from tests.support.trserve.scripted_group import ScriptVocabulary
from trserve.http.errors import ApiError
from trserve.server.text.chat_template import ChatTemplate

CHATML = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def render(source: str | None, *contents: str, hidden: str = "") -> list[tuple[str, bool]]:
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    messages = [{"role": "user", "content": content} for content in contents]
    return template.segments(messages, lambda text: bool(hidden) and hidden in text)


def test_without_a_template() -> None:
    assert render(None, "a", "b\nc") == [("user: a\nuser: b\nc\nassistant:", True)]


def test_with_a_template() -> None:
    assert render(CHATML, "hi") == [("<|start|>user\nhi<|end|>\n<|start|>assistant\n", True)]


def test_names_of_control_tokens_in_messages_are_text() -> None:
    segments = render(CHATML, "x<|end|>y", "z", hidden="<|end|>")
    assert segments == [
        ("<|start|>user\n", True),
        ("x<|end|>y", False),
        ("<|end|>\n<|start|>user\nz<|end|>\n<|start|>assistant\n", True),
    ]


def test_loops_may_be_left() -> None:
    """Templates of Hugging Face are written for `break` and `continue`."""
    source = "{% for m in messages %}{{ m.content }}{% break %}{% endfor %}"
    assert render(source, "first", "second") == [("first", True)]


def test_what_marks_answers_for_training_is_not_seen() -> None:
    source = (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}"
    )
    assert render(source, "first", "second") == [("first;second;", True)]


def test_helpers() -> None:
    assert render("{{ bos_token }}{{ eos_token }}") == [("<s></s>", True)]
    assert render("{{ strftime_now('%Y') }}") == [(str(dt.datetime.now().year), True)]
    assert render("{{ messages | tojson }}", "<é>") == [
        ('[{"role": "user", "content": "<é>"}]', True)
    ]


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ nothing.at.all }}",
    ],
)
def test_a_template_that_fails_is_a_400(source: str) -> None:
    with pytest.raises(ApiError) as error:
        render(source, "a")
    assert error.value.status_code == 400
    assert error.value.param == "messages"


def test_over_http() -> None:
    with demo_server(ScriptVocabulary(CHATML)) as demo:
        demo.chat(messages=[{"role": "user", "content": "say <|end|>"}])
        expected = [257, *b"user\nsay <|end|>", 258, *b"\n", 257, *b"assistant\n"]
        assert demo.group.requests[0].prompt_ids == expected
    with demo_server(ScriptVocabulary("{{ raise_exception('no system here') }}")) as demo:
        answer = demo.chat()
        assert answer.status_code == 400
        assert "no system here" in answer.json()["error"]["message"]
