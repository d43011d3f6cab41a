"""The demo pair: the shipped small model against the large one, and the program that makes it."""

# ruff: noqa: E402  (without the training extra this module is skipped before it imports it)

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch", reason="trrouters[training] is not installed: no torch")
for library in ("gguf", "llama_cpp", "rich", "safetensors", "typer"):
    pytest.importorskip(library, reason=f"trrouters[training] is not installed: no {library}")

from trrouters.training.collect import SettingsChangedError
from trrouters.training.extra import TrainingExtraError
from trrouters_workshop import __main__ as program
from trrouters_workshop.agreement import PROMPTS, measure, share_difference
from trrouters_workshop.distill import DistillSettings, distill
from trrouters_workshop.export_gguf import export_gguf
from trrouters_workshop.llama_cpp_sequence import LlamaCppSequence
from trrouters_workshop.llama_torch import Llama, LlamaShape, load_gguf
from trrouters_workshop.rebuild import NotEmptyError, rebuild_slm, teacher_path
from trrouters_workshop.sample import (
    SampleSettings,
    load_shards,
    sample_shards,
)
from trrouters_workshop.turns import Turns, chat_prompt

SHIPPED = Path(__file__).parents[3] / "trserve" / "src" / "trserve" / "models"
FOUR = tuple(PROMPTS[i] for i in (0, 2, 9, 13))
MEGABYTE = 1_000_000
FLOOR = 0.30  # measured: 55 of 160 positions, 0.344 (BF16: 0.350)

TINY = LlamaShape(
    vocabulary=64,
    hidden=32,
    layers=2,
    heads=4,
    kv_heads=2,
    feed_forward=48,
    rope_base=10_000.0,
    norm_epsilon=1e-5,
    context=64,
)
TINY_TURNS = Turns(
    opening=(1, 5, 6), to_answer=(2, 1, 7), to_user=(1, 6), end=2, stops=frozenset({0, 1, 2})
)
TINY_SAMPLE = SampleSettings(tokens=1536, rows=16, length=48, longest_user_turn=6, seed=3)


@pytest.fixture(scope="module")
def large() -> Path:
    try:
        return teacher_path()
    except TrainingExtraError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def small() -> Path:
    path = SHIPPED / "smollm2-slm8.IQ4_NL.gguf"
    if not path.is_file():
        pytest.skip("trserve's package data is not beside this package")
    return path


def tiny_teacher() -> Llama:
    torch.manual_seed(0)
    return Llama(TINY)


def worst_difference(gguf: Path) -> tuple[float, float, float]:
    """Max and mean absolute logit difference of llama.cpp to torch, and their argmax agreement."""
    with LlamaCppSequence(gguf, context=128, threads=1) as served:
        tokens = served.tokenize(chat_prompt("What is the capital of France?") + "The capital")
        given = served.extend(tokens)
    reference = load_gguf(gguf)
    with torch.inference_mode():
        wanted = reference.logits(reference(torch.tensor([tokens])))[0].numpy()
    off = np.abs(given - wanted)
    same = (given.argmax(axis=1) == wanted.argmax(axis=1)).mean()
    return float(off.max()), float(off.mean()), float(same)


# ---------------------------------------------------------------- what is shipped


@pytest.mark.models
def test_vocabularies_are_identical(large: Path, small: Path) -> None:
    with LlamaCppSequence(large, context=0) as one, LlamaCppSequence(small, context=0) as other:
        assert one.vocabulary() == other.vocabulary()
        text = chat_prompt("¿Qué tal? 12 + 30\n\tif x: y")
        assert one.tokenize(text) == other.tokenize(text)


@pytest.mark.models
def test_template_and_embedding_are_the_large_models(large: Path, small: Path) -> None:
    from gguf import GGUFReader

    one, other = GGUFReader(large), GGUFReader(small)
    for key in ("tokenizer.chat_template", "tokenizer.ggml.pre", "llama.context_length"):
        fields = one.get_field(key), other.get_field(key)
        assert fields[0] is not None
        assert fields[1] is not None
        assert fields[0].contents() == fields[1].contents()
    embeddings = [
        next(t for t in reader.tensors if t.name == "token_embd.weight") for reader in (one, other)
    ]
    assert np.array_equal(embeddings[0].data, embeddings[1].data)


@pytest.mark.models
def test_shipped_model_is_small_and_described(small: Path) -> None:
    assert small.stat().st_size < 60 * MEGABYTE
    assert small.name in (SHIPPED / "MODEL_CARD.md").read_text()


@pytest.mark.models
def test_shipped_model_follows_the_large_one(large: Path, small: Path) -> None:
    (agreed,) = measure(large, [small], prompts=FOUR, max_tokens=40, threads=1)
    assert agreed.positions > 100
    assert agreed.share > FLOOR


# ---------------------------------------------------------------- making one


@pytest.mark.models
def test_small_model_is_rebuilt_from_the_large_one_alone(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "rebuilt"
    rebuild = partial(
        rebuild_slm,
        out,
        teacher=large,
        layers=2,
        sampling=SampleSettings(tokens=384, rows=8, length=48, longest_user_turn=4),
        training=DistillSettings(batch=2, passes=1, held_out=2, warm_up=1),
        threads=1,
        prompts=("What is 12 plus 30?",),
    )
    report = rebuild()
    assert json.loads((out / "report.json").read_text()) == report
    assert report["distillation"]["steps"] == 3

    # llama.cpp rounds activations to 8 bits before a product with a quantised matrix, torch does
    # not: logits of |30..60| differ by up to 0.6. A wrong head order or rotation gives over 10.
    largest, mean, same = worst_difference(Path(report["gguf"]))
    assert largest < 1.5
    assert mean < 0.15
    assert same > 0.9

    with pytest.raises(NotEmptyError, match="--resume"):
        rebuild()


@pytest.mark.models
def test_shipped_model_reads_the_same_in_torch(small: Path) -> None:
    largest, mean, same = worst_difference(small)
    assert largest < 1.5
    assert mean < 0.2
    assert same > 0.9


def test_sampling_continues_to_the_same_data(tmp_path: Path) -> None:
    teacher = tiny_teacher()
    whole = sample_shards(teacher, TINY_TURNS, TINY_SAMPLE, tmp_path / "whole")
    assert len(whole) == 2
    sample_shards(teacher, TINY_TURNS, replace(TINY_SAMPLE, tokens=1), tmp_path / "cut")
    cut = sample_shards(teacher, TINY_TURNS, TINY_SAMPLE, tmp_path / "cut")
    assert [path.read_bytes() for path in cut] == [path.read_bytes() for path in whole]
    with pytest.raises(SettingsChangedError):
        sample_shards(teacher, TINY_TURNS, replace(TINY_SAMPLE, seed=4), tmp_path / "cut")


def test_samples_are_conversations(tmp_path: Path) -> None:
    teacher = tiny_teacher()
    data = load_shards(sample_shards(teacher, TINY_TURNS, TINY_SAMPLE, tmp_path))
    assert data.tokens.shape == data.answers.shape == data.hidden.shape[:2]
    assert data.tokens[:, :3].tolist() == [[1, 5, 6]] * 32
    # an answer begins where its marker (7 after 1) ends, and lasts until its end token is written
    for tokens, answers in zip(data.tokens.tolist(), data.answers.tolist(), strict=True):
        answering = False
        for i in range(len(tokens) - 1):
            if tokens[i] == 7 and tokens[i - 1] == 1:
                answering = True
            elif tokens[i] == 2:
                answering = False
            assert answers[i] == answering
    # the kept hidden states are those of reading the tokens in one go
    with torch.inference_mode():
        again = teacher(data.tokens[:4].long())
    torch.testing.assert_close(again.bfloat16(), data.hidden[:4], rtol=0.02, atol=0.02)


def test_training_continues_to_the_same_student(tmp_path: Path) -> None:
    teacher = tiny_teacher()
    data = load_shards(sample_shards(teacher, TINY_TURNS, TINY_SAMPLE, tmp_path))
    settings = DistillSettings(
        passes=4, batch=4, held_out=4, warm_up=2, checkpoint_every=5, answer_share=1.0
    )

    def student() -> Llama:
        made = Llama(replace(TINY, layers=1))
        made.load_state_dict(teacher.state_dict(), strict=False)
        return made

    class StoppedError(Exception):
        pass

    def stop(share: float, _loss: float) -> None:
        if share > 0.5:
            raise StoppedError

    whole, cut = student(), student()
    report = distill(whole, data, settings, tmp_path / "whole.pt")
    with pytest.raises(StoppedError):
        distill(cut, data, settings, tmp_path / "cut.pt", progress=stop)
    again = student()
    resumed = distill(again, data, settings, tmp_path / "cut.pt")
    assert resumed.steps == report.steps == 28
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    assert torch.equal(whole.token_embd.weight, teacher.token_embd.weight)


def test_reading_at_once_equals_reading_with_a_cache() -> None:
    teacher = tiny_teacher()
    tokens = torch.randint(0, 64, (3, 20))
    with torch.inference_mode():
        at_once = teacher(tokens)
        cache = teacher.new_cache(3, 20)
        parts = [teacher(tokens[:, :9], cache), teacher(tokens[:, 9:12], cache, 9)]
        parts += [teacher(tokens[:, i : i + 1], cache, i) for i in range(12, 20)]
    torch.testing.assert_close(torch.cat(parts, 1), at_once, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- what can go wrong


def test_bad_exports_are_refused(tmp_path: Path) -> None:
    gap = {"blk.1.attn_q.weight": np.zeros((4, 4), np.float32)}
    with pytest.raises(ValueError, match="without gaps"):
        export_gguf(gap, tmp_path / "none", tmp_path / "out", block_format="Q4_0")
    with pytest.raises(ValueError, match="not one of"):
        export_gguf(gap, tmp_path / "none", tmp_path / "out", block_format="Q3")
    assert not (tmp_path / "out").exists()


def test_program_reports_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    command = ["agreement", str(broken), "--teacher", str(broken), "--json"]
    assert program.main(command) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "cannot load" in said.err


def test_difference_needs_the_same_positions(large: Path, small: Path) -> None:
    one, *_ = measure(large, [small], prompts=FOUR[:1], max_tokens=2, threads=1)
    other, *_ = measure(large, [small], prompts=FOUR[:1], max_tokens=3, threads=1)
    assert share_difference(one, one) == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="different positions"):
        share_difference(one, other)
