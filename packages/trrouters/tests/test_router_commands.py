"""`trrouters collect | train | calibrate | eval | import-r2r`, run in this process."""

# ruff: noqa: E402  (without the training extra this module is skipped before it imports it)

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="trrouters[training] is not installed: no torch")
for library in ("rich", "safetensors", "typer"):
    pytest.importorskip(library, reason=f"trrouters[training] is not installed: no {library}")

from safetensors.torch import load, save

from packages.trrouters.tests.scripted_pair import Scripted, mostly, rule, scripted_pair
from tests.support.trrouters.tiny_checkpoints import edit_config, published_r2r, saved
from trrouters.checkpoint import load_checkpoint
from trrouters.cli.main import main
from trrouters.training import pair as pair_module
from trrouters.training.pair import PairError, TrainingPair, open_pair

VOCAB = 110
Capture = pytest.CaptureFixture[str]


def prompts_file(folder: Path, count: int = 14) -> str:
    path = folder / "prompts.txt"
    path.write_text("".join(f"What is {n}?\n" for n in range(count)))
    return str(path)


def scripted(**options: Any) -> Scripted:
    large = rule(1, VOCAB, order=1)
    small = mostly(large, 2, VOCAB, 0.7)
    return scripted_pair(large, small, vocab=VOCAB, sequences=5, context=60, **options)


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Scripted]:
    """The pairs opened; a scripted one is known as `pair`."""
    pairs: list[Scripted] = []

    def open_scripted(name: str, *, sequences: int, context: int) -> TrainingPair:
        if name != "pair":
            raise PairError(f"{name}: no such file")
        pairs.append(scripted())
        assert (sequences, context) == (5, 60)
        return pairs[-1].pair

    monkeypatch.setattr(pair_module, "open_pair", open_scripted)
    return pairs


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of the scripted pair, made once, by the command."""
    folder = tmp_path_factory.mktemp("collected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_module, "open_pair", lambda name, **_: scripted().pair)
        assert main(collect_words(folder)) == 0
    return folder / "data"


def collect_words(folder: Path, *more: str) -> list[str]:
    words = ["collect", "--pair", "pair", "--prompts", prompts_file(folder)]
    return [*words, "--out", str(folder / "data"), "--batch", "5", "--context", "60", *more]


def report(capsys: Capture, *words: str) -> dict[str, Any]:
    """One line of JSON on standard output; nothing but progress on standard error."""
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "trrouters: " not in err
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(found, dict)
    return found


def failure(capsys: Capture, *words: str) -> tuple[int, str]:
    """Exit status, and the one line on standard error after the progress."""
    capsys.readouterr()
    status = main(words)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("trrouters: ")]
    assert len(lines) == 1
    assert err.endswith(lines[0] + "\n")
    assert "Traceback" not in err
    return status, lines[0]


def test_from_a_pair_to_a_measured_router(
    tmp_path: Path, capsys: Capture, opened: list[Scripted]
) -> None:
    found = report(capsys, *collect_words(tmp_path, "--max-tokens", "12", "--horizon", "3"))
    assert (found["shards"], found["prompts"]) == (3, 14)
    assert 14 < found["rows"] <= 14 * 12
    assert 0.5 < found["agreement"] < 0.9
    assert 0 < found["divergent"] <= 1 - found["agreement"] + 1e-4
    assert opened[0].small.closed
    assert opened[0].large.closed
    again = report(capsys, *collect_words(tmp_path, "--max-tokens", "12", "--horizon", "3"))
    assert again == found
    assert opened[1].large.steps == 0, "all was there"

    data, out = ("--data", str(tmp_path / "data")), str(tmp_path / "router")
    quick = ("--epochs", "2", "--learning-rate", "0.01", "--seed", "3")
    for algorithm in ("r2r", "citer", "co-llm"):
        widths = () if algorithm == "co-llm" else ("--widths", "8,6")
        found = report(capsys, "train", algorithm, *data, "--out", out, *quick, *widths)
        assert found["checkpoint"] == out
        assert found["bytes"] == sum(file.stat().st_size for file in Path(out).iterdir())
        checkpoint = load_checkpoint(out, algorithm.replace("-", "_"))
        assert checkpoint.threshold == found["threshold"]
        assert checkpoint.architecture.get("widths", [8, 6]) == [8, 6]
        assert checkpoint.training["fit"]["seed"] == 3

        found = report(capsys, "calibrate", out, *data, "--rate", "0.25")
        assert 0.25 <= found["rate"] < 0.3
        assert load_checkpoint(out).threshold == found["threshold"]
        measured = report(capsys, "eval", out, *data)
        assert list(measured) == [out, "entropy (r_stitch)"]
        assert measured[out]["threshold"] == round(found["threshold"], 4)
        assert 0 <= measured[out]["roc_auc"] <= 1


def test_r_stitchs_tau_is_printed_only(collected: Path, capsys: Capture) -> None:
    before = sorted(collected.iterdir())
    found = report(capsys, "calibrate", "r_stitch", "--data", str(collected), "--recall", "0.9")
    assert found["recall"] >= 0.9
    assert sorted(collected.iterdir()) == before


def test_without_json_a_table(collected: Path, capsys: Capture) -> None:
    assert main(["calibrate", "r_stitch", "--data", str(collected), "--rate", "0.5"]) == 0
    names = [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["threshold", "rate", "recall"]


def test_progress_goes_to_a_terminal_on_standard_error(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for one
    assert main(collect_words(tmp_path, "--json")) == 0
    out, err = capsys.readouterr()
    assert "collecting" in err
    assert "collecting" not in out
    words = ["train", "co-llm", "--data", str(tmp_path / "data"), "--epochs", "1", "--json"]
    assert main([*words, "--out", str(tmp_path / "router")]) == 0
    out, err = capsys.readouterr()
    assert "training" in err
    assert json.loads(out)["checkpoint"] == str(tmp_path / "router")


def test_no_bars_in_files(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert main(collect_words(tmp_path)) == 0
    assert capsys.readouterr().err == ""


def test_an_algorithm_is_known_by_its_name_in_configurations(
    tmp_path: Path, collected: Path, capsys: Capture
) -> None:
    words = ("train", "co_llm", "--data", str(collected), "--epochs", "1")
    report(capsys, *words, "--out", str(tmp_path / "router"))
    assert load_checkpoint(tmp_path / "router").algorithm == "co_llm"


def test_a_published_router_is_converted(tmp_path: Path, capsys: Capture) -> None:
    torch.save(published_r2r(), tmp_path / "router.pt")
    words = ("import-r2r", str(tmp_path / "router.pt"), "--large", "Qwen/QwQ-32B")
    found = report(capsys, *words, "--out", str(tmp_path / "router"))
    assert found == {"checkpoint": str(tmp_path / "router"), "threshold": 0.44}
    assert load_checkpoint(tmp_path / "router", "r2r").pair[1].name == "Qwen/QwQ-32B"


# --- failures


def test_a_pair_that_cannot_be_opened(tmp_path: Path, capsys: Capture) -> None:
    words = ["nowhere.yaml" if word == "pair" else word for word in collect_words(tmp_path)]
    assert failure(capsys, *words) == (2, "trrouters: nowhere.yaml: no such file")


def test_no_package_that_opens_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_module, "entry_points", lambda group: [])
    with pytest.raises(PairError, match="pip install"):
        open_pair("demo")


def test_a_stopped_collection_says_how_to_go_on(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = scripted()
    stopped.small.fails_at, stopped.small.failure = 60, KeyboardInterrupt()
    with monkeypatch.context() as patch:
        patch.setattr(pair_module, "open_pair", lambda name, **_: stopped.pair)
        assert main(collect_words(tmp_path)) == 130
    assert "the same command" in capsys.readouterr().err
    assert stopped.small.closed
    assert report(capsys, *collect_words(tmp_path))["shards"] == 3


@pytest.mark.parametrize("command", ["calibrate", "eval"])
def test_a_router_that_cannot_be_used(
    tmp_path: Path, collected: Path, capsys: Capture, command: str
) -> None:
    words = ("--data", str(collected), *(("--rate", "0.5") if command == "calibrate" else ()))
    status, said = failure(capsys, command, str(tmp_path / "none"), *words)
    assert (status, str(tmp_path / "none") in said) == (2, True)

    other = saved(tmp_path / "other", "citer")  # of another pair
    status, said = failure(capsys, command, other, *words)
    assert status == 2
    assert "was trained for small (weights-1) + large (weights-2), not for small (small-1)" in said

    edit_config(other, lambda config: config.update(algorithm="third_party"))
    status, said = failure(capsys, command, other, *words)
    assert (status, "'third_party' routers" in said) == (2, True)

    (Path(other) / "router.json").write_text("{")
    status, said = failure(capsys, command, other, *words)
    assert (status, "router.json" in said) == (2, True)


def test_an_import_that_is_refused(tmp_path: Path, capsys: Capture) -> None:
    words = ("--large", "large", "--out", str(tmp_path / "router"))
    (tmp_path / "router.pt").write_bytes(b"garbage")
    status, said = failure(capsys, "import-r2r", str(tmp_path / "router.pt"), *words)
    assert (status, "refused" in said) == (2, True)
    assert failure(capsys, "import-r2r", str(tmp_path / "none.pt"), *words)[0] == 2
    assert not (tmp_path / "router").exists()


def test_missing_data(tmp_path: Path, capsys: Capture, opened: list[Scripted]) -> None:
    none, out = str(tmp_path / "none"), str(tmp_path / "router")
    for words in (
        ("train", "citer", "--data", none, "--out", out),
        ("calibrate", "r_stitch", "--data", none, "--rate", "0.5"),
        ("eval", out, "--data", none),
        ("collect", "--pair", "pair", "--prompts", none, "--out", out),
    ):
        status, said = failure(capsys, *words)
        assert (status, none in said) == (2, True)
    assert not opened, "the models are not loaded for prompts that aren't there"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("rows-00001.safetensors", b"garbage"),
        ("rows-00001.safetensors", save({"tokens": torch.zeros(3)})),
        ("collected.json", b"{"),
        ("collected.json", b'{"pair": []}'),
    ],
)
def test_damaged_data(
    tmp_path: Path, collected: Path, capsys: Capture, file: str, content: bytes
) -> None:
    data = shutil.copytree(collected, tmp_path / "data")
    (data / file).write_bytes(content)
    words = ("train", "citer", "--data", str(data), "--out", str(tmp_path / "router"))
    status, said = failure(capsys, *words)
    assert (status, str(data / file) in said) == (2, True)


def test_a_shard_with_rows_cut_off(tmp_path: Path, collected: Path, capsys: Capture) -> None:
    data = shutil.copytree(collected, tmp_path / "data")
    shard = load((data / "rows-00001.safetensors").read_bytes())
    shard["entropy"] = shard["entropy"][:-1].clone()
    (data / "rows-00001.safetensors").write_bytes(save(shard))
    status, said = failure(capsys, "calibrate", "r_stitch", "--data", str(data), "--rate", "0.5")
    assert (status, "rows-00001.safetensors: " in said, "entropy" in said) == (2, True, True)


def test_what_cannot_be_learnt_or_continued(
    tmp_path: Path, collected: Path, capsys: Capture
) -> None:
    out = ("--out", str(tmp_path / "router"))
    words = ("train", "co-llm", "--data", str(collected), *out, "--widths", "4")
    status, said = failure(capsys, *words)
    assert (status, "widths" in said) == (2, True)
    shutil.copytree(collected, tmp_path / "data")
    status, said = failure(capsys, *collect_words(tmp_path, "--max-tokens", "5"))
    assert (status, "was begun with max_tokens 96, not 5" in said) == (2, True)
    assert "pair" not in said.partition("begun")[2], "only what differs is said"


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("'r2r|citer|co-llm'", ("train", "me", "--data", "d", "--out", "o")),
        ("'--widths'", ("train", "r2r", "--data", "d", "--out", "o", "--widths", "8,0")),
        ("'--widths'", ("train", "r2r", "--data", "d", "--out", "o", "--widths", "8,x")),
        ("'--out'", ("train", "r2r", "--data", "d", "--out", __file__)),
        ("'--out'", ("collect", "--pair", "p", "--prompts", "f", "--out", __file__)),
        ("'--epochs'", ("train", "r2r", "--data", "d", "--out", "o", "--epochs", "0")),
        ("'--rate' / '--recall'", ("calibrate", "r_stitch", "--data", "d")),
        (
            "'--rate' / '--recall'",
            ("calibrate", "r_stitch", "--data", "d", "--rate", "0.1", "--recall", "0.1"),
        ),
        ("'ROUTER...'", ("eval", "--data", "d")),
        *(
            (
                f"'{option}'",
                ("collect", "--pair", "p", "--prompts", "f", "--out", "o", option, value),
            )
            for option in ("--limit", "--max-tokens", "--horizon", "--batch", "--context")
            for value in ("0", "-1", "x")
        ),
    ],
    ids=lambda value: " ".join(value[-2:]).rpartition("/")[2] if isinstance(value, tuple) else "",
)
def test_words_that_cannot_be(capsys: Capture, named: str, words: tuple[str, ...]) -> None:
    status, said = failure(capsys, *words)
    assert (status, named in said) == (2, True), said
    assert "_" not in said.replace("r_stitch", "").replace(__file__, ""), (
        "names of functions are not for people"
    )


def test_without_words_the_help(capsys: Capture) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.lstrip().startswith("Usage: trrouters")


@pytest.mark.parametrize("command", [(), ("collect",), ("eval",)])
def test_help_says_what_a_command_does(capsys: Capture, command: tuple[str, ...]) -> None:
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.lstrip().startswith(f"Usage: {' '.join(('trrouters', *command))}")
    if not command:
        assert "--install-completion" in said


def test_an_installed_packages_router_is_not_rewritten(
    collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    router = "package://trserve/routers/smol-r2r"
    assert main(["calibrate", router, "--data", str(collected), "--rate", "0.5"]) == 2
    assert "calibrate a copy" in capsys.readouterr().err


def test_a_router_says_what_its_threshold_is_for(collected: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "router")
    assert main(["train", "co-llm", "--data", str(collected), "--out", folder]) == 0
    assert load_checkpoint(folder).training["threshold_for"]["recall"] == 0.95
    assert main(["calibrate", folder, "--data", str(collected), "--rate", "0.5"]) == 0
    assert load_checkpoint(folder).training["threshold_for"].items() >= {"rate": 0.5}.items()
