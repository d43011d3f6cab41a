from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trserve.server.text.detokenizer import Detokenizer

pieces = st.lists(st.binary(max_size=5), max_size=30)


def run(parts: list[bytes]) -> list[str]:
    detokenizer = Detokenizer()
    return [*map(detokenizer.push, parts), detokenizer.finish()]


@given(pieces)
def test_all_bytes_become_text(parts: list[bytes]) -> None:
    assert "".join(run(parts)) == b"".join(parts).decode("utf-8", "replace")


@given(st.text(), st.data())
def test_valid_text_is_never_broken(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=20)))
    parts = [raw[i:j] for i, j in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    out = run(parts)
    assert "".join(out) == text
    for i in range(len(out)):
        assert text.startswith("".join(out[:i]))


def test_a_character_comes_with_its_last_byte() -> None:
    assert run([b"\xf0", b"\x9f", b"\x98", b"\x80"]) == ["", "", "", "😀", ""]
