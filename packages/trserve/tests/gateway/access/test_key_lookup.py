"""Keys are found, their files checked, and accounts outlive a reload."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from trsched.errors import ConfigError
from trserve.gateway.access.key_lookup import KeysOfFile
from trserve.gateway.access.keys_file import new_key

A, B = (hashlib.sha256(key).hexdigest() for key in (b"key-a", b"key-b"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def written(path: Path, text: str) -> KeysOfFile:
    path.write_text(text, encoding="utf-8")
    return KeysOfFile(path)


def test_a_new_key_opens_the_door_and_is_not_in_the_file(path: Path) -> None:
    key, line = new_key("alice")
    assert key not in line
    assert len(key) > 40
    assert new_key("alice")[0] != key
    keys = written(path, f"# who may ask\n{line}\n")
    caller = keys.find(key.encode())
    assert caller is not None
    assert (caller.name, caller.admin, caller.models) == ("alice", False, None)
    assert caller.may_use("anything")
    for wrong in (b"", b"\xff\x00", key.encode()[:-1], key.encode() + b" ", line.encode()):
        assert keys.find(wrong) is None


@pytest.mark.parametrize("name", ["", "a b", "a\nb", 'a"', "x" * 65, "ä"])
def test_a_new_keys_name_is_one_word(name: str) -> None:
    with pytest.raises(ConfigError, match="name: expected 1 to 64"):
        new_key(name)


def test_all_fields(path: Path) -> None:
    keys = written(
        path,
        f"""
- name: alice
  sha256: "{A.upper()}"
  requests_per_minute: 60
  tokens_per_minute: 0.5
  concurrency: 1
  models: [small, large]
  admin: true
- {{name: bob, sha256: {B}, models: []}}
""",
    )
    alice, bob = keys.find(b"key-a"), keys.find(b"key-b")
    assert alice is not None
    assert bob is not None
    assert alice.admin
    assert [alice.may_use(model) for model in ("small", "large", "huge")] == [True, True, False]
    assert not bob.may_use("small")
    assert alice.limiter.take(0.0, 0) is None
    refusal = alice.limiter.take(0.0, 0)
    assert refusal is not None
    assert refusal.limit == "concurrency"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", ": expected a list of keys"),
        ("alice: 1", ": expected a list of keys"),
        ("- alice", " line 1 column 3: expected `{name"),
        (f"- {{name: a, sha256: {A}}}\n- 7", " line 2 column 3: expected `{name"),
        ("- {name: a}", " line 1 column 3: sha256: Field required"),
        (f"- name: a\n  sha256: {A[:-1]}", " line 2 column 3: sha256: String should match"),
        (f"- name: 'a b'\n  sha256: {A}", " line 1 column 3: name: String should match"),
        (
            f"- name: a\n  sha256: {A}\n  concurrency: 0",
            " line 3 column 3: concurrency: should be greater",
        ),
        (f"- name: a\n  sha256: {A}\n  concurrency: 1.5", " line 3 column 3: concurrency: "),
        (f"- name: a\n  sha256: {A}\n  admin: 1", " line 3 column 3: admin: "),
        (f"- name: a\n  sha256: {A}\n  models: small", " line 3 column 3: models: "),
        (f"- name: a\n  sha256: {A}\n  models: [1]", " line 3 column 3: models: "),
        (
            f"- name: a\n  sha256: {A}\n  tokens_per_minute: .nan",
            " line 3 column 3: tokens_per_minute: ",
        ),
        (
            f"- name: a\n  sha256: {A}\n  requests_per_minut: 3",
            " line 3 column 3: requests_per_minut: ",
        ),
        (f"- name: a\n  sha256: {A}\n  name: b", " line 3 column 3: 'name' is given twice"),
        (f"- name: a\n  sha256: {A}\n  1: b", " line 3 column 3: 1: "),
        (
            f"- {{name: a, sha256: {A}}}\n- {{name: a, sha256: {B}}}",
            " line 2 column 4: name: is there",
        ),
        (
            f"- {{name: a, sha256: {A}}}\n- {{name: b, sha256: {A}}}",
            " line 2 column 13: sha256: is there",
        ),
        (
            f"- &a {{name: a, sha256: {A}}}\n- {{<<: *a, name: b}}",
            " line 2 column 3: sha256: is there",
        ),
        ("- {name: a\n- [", " line 2 column 3: "),
        ("- {name: 2024-13-45}", " line 1 column 10: month must be"),
        ("- !!python/object:os.system {}", " line 1 column 3: "),
        ("- a: \x07", " line 1 column 6: special characters"),
    ],
)
def test_a_bad_file_is_named_with_line_and_field(path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        written(path, text)
    assert str(caught.value).startswith(f"keys {path}{complaint}"), str(caught.value)


def test_a_file_that_cannot_be_read(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"keys\.yaml: No such file"):
        KeysOfFile(path)
    with pytest.raises(ConfigError, match="Is a directory"):
        KeysOfFile(tmp_path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        KeysOfFile(path)


def test_a_reload_takes_changes_and_keeps_the_accounts_of_names_that_stay(path: Path) -> None:
    keys = written(path, f"- {{name: a, sha256: {A}, concurrency: 1}}")
    before = keys.find(b"key-a")
    assert before is not None
    assert before.limiter.take(0.0, 0) is None
    path.write_text(f"- {{name: a, sha256: {B}, concurrency: 2}}")
    keys.reload()
    assert keys.find(b"key-a") is None
    after = keys.find(b"key-b")
    assert after is not None
    assert after.limiter.running == 1
    assert after.limiter.take(0.0, 0) is None
    assert after.limiter.take(0.0, 0) is not None
    before.limiter.release(0.0, 0, 0)
    assert after.limiter.running == 1


def test_a_reload_of_a_broken_file_changes_nothing(path: Path) -> None:
    keys = written(path, f"- {{name: a, sha256: {A}}}")
    for broken in ("- {", "[", f"- {{name: b, sha256: {B}}}\n- {{name: b}}"):
        path.write_text(broken)
        with pytest.raises(ConfigError):
            keys.reload()
        assert keys.find(b"key-a") is not None
        assert keys.find(b"key-b") is None
    path.write_text("[]")
    keys.reload()
    assert keys.find(b"key-a") is None


def test_the_line_is_a_list_of_its_own() -> None:
    assert yaml.safe_load(new_key("a.b-c@d")[1])[0]["name"] == "a.b-c@d"
