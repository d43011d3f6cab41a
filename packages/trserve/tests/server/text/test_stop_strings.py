from __future__ import annotations

import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from trserve.server.text.stop_strings import StopStrings

letters = st.text("ab", max_size=12)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4)


def plain(text: str, stops: list[str]) -> tuple[str, bool]:
    """The definition: read character by character, stop at the first complete stop string."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


def streamed(parts: list[str], stops: list[str]) -> tuple[list[str], bool]:
    matcher = StopStrings(stops)
    out = [matcher.push(part) for part in parts]
    if not matcher.found:
        out.append(matcher.finish())
    return out, matcher.found


@given(st.lists(letters, max_size=8), stop_lists)
@example(["ab", "ab"], ["abab", "ba"])
@example(["a", "a", "b"], ["aab", "b"])
def test_pieces_do_not_matter(parts: list[str], stops: list[str]) -> None:
    out, found = streamed(parts, stops)
    assert ("".join(out), found) == plain("".join(parts), stops)


@given(st.lists(letters, max_size=8), stop_lists)
def test_nothing_of_a_stop_string_ever_goes_out(parts: list[str], stops: list[str]) -> None:
    whole, _ = plain("".join(parts), stops)
    out, _ = streamed(parts, stops)
    for i in range(len(out) + 1):
        assert whole.startswith("".join(out[:i]))


def test_no_more_is_held_back_than_needed() -> None:
    assert streamed(["hello S", "T", "ART", " STO", "P!"], ["STOP"]) == (
        ["hello ", "", "START", " ", ""],
        True,
    )


def test_after_the_end_nothing_follows() -> None:
    matcher = StopStrings(["x"])
    assert matcher.push("axb") == "a"
    assert matcher.push("c") == ""
    assert matcher.finish() == ""


def test_long_stop_strings_take_no_more_memory_than_they_have_characters() -> None:
    stops = [letter * 1000 for letter in "abcd"]
    tracemalloc.start()
    matcher = StopStrings(stops)
    out = [matcher.push(part) for part in ("x" + "a" * 999, "b")]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert out == ["x", "a" * 999]
    assert peak < 50_000
