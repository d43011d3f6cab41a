"""What is known of each model of a group before any weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trrouters import ModelIdentity
from trsched.errors import ConfigError, EngineError
from trsched.models.hf_config import HfConfig
from trsched.models.hf_files import HfFiles, find_hf_files, is_hub_name
from trsched.models.hf_vocabulary import HfVocabulary
from trsched.models.model_path import resolve_model_path
from trsched.models.requantize import FTYPES
from trsched.models.vocabulary import ByteVocabulary, GgufVocabulary, Vocabulary
from trsched.models.weights_fingerprint import weights_fingerprint
from trsched.plan.config import LlamaCppModel, ModelConfig, ProfileModel
from trsched.plan.gpu_memory import RankMemory
from trsched.plan.require import require_llamacpp
from trsched.plan.sglang_model import KV_DTYPE_BYTES, SglangModel


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. None and 0: not known, as its files are not on this machine.

    identity: for routers trained for certain models.
    path: its file or folder.
    size: ids that it can sample.
    kv_bytes_per_token: over all ranks.
    rank_memory: on GPUs (sglang only; empty where not known).
    unchecked: what of its files could not be looked at, for people.
    """

    identity: ModelIdentity
    path: Path | None
    vocabulary: Vocabulary | None
    size: int
    context_length: int
    kv_bytes_per_token: int
    file_bytes: int | None = None
    rank_memory: tuple[RankMemory, ...] = ()
    unchecked: str | None = None


def model_facts(model: ModelConfig, field: str) -> ModelFacts:
    """Read what the model's files say. Raises ConfigError naming the setting below `field`."""
    if isinstance(model, ProfileModel):
        return ModelFacts(
            identity=ModelIdentity(model.name, f"profile-{model.name}"),
            path=None,
            vocabulary=ByteVocabulary(model.vocab_size),
            size=model.vocab_size,
            context_length=ByteVocabulary().context_length,
            kv_bytes_per_token=model.kv_bytes_per_token,
        )
    if isinstance(model, LlamaCppModel):
        return _llamacpp_facts(model, field)
    return _sglang_facts(model, field)


def _llamacpp_facts(model: LlamaCppModel, field: str) -> ModelFacts:
    require_llamacpp(f"{field}.engine")
    path = resolve_model_path(model.path, f"{field}.path")
    if model.quantize is not None and model.quantize not in FTYPES:
        raise ConfigError(f"{field}.quantize", f"{model.quantize!r} is none of {', '.join(FTYPES)}")
    try:
        vocabulary = GgufVocabulary(path, extra_rows=int(model.deferral_row))
    except EngineError as error:
        raise ConfigError(f"{field}.path", str(error)) from error
    return ModelFacts(
        identity=ModelIdentity(model.name, weights_fingerprint(path), vocabulary.hidden_size),
        path=path,
        vocabulary=vocabulary,
        size=vocabulary.size,
        context_length=vocabulary.context_length,
        kv_bytes_per_token=vocabulary.kv_bytes_per_token,
        file_bytes=path.stat().st_size,
    )


def _sglang_facts(model: SglangModel, field: str) -> ModelFacts:
    files = find_hf_files(model.path, model.revision, f"{field}.path")
    config = files.config
    name = model.path if is_hub_name(model.path) else model.name
    if config is None:
        return ModelFacts(
            identity=ModelIdentity(name),
            path=None,
            vocabulary=None,
            size=0,
            context_length=0,
            kv_bytes_per_token=0,
            unchecked=_absent(model, "its size, tokenizer and weights"),
        )
    _check_ranks(model, config, f"{field}.tp")
    vocabulary = _sglang_vocabulary(model, files, config, f"{field}.path")
    per_rank = config.kv_bytes_per_token(model.tp, _kv_number_bytes(model, config))
    return ModelFacts(
        identity=ModelIdentity(name, _weights_name(model, files), config.hidden_size),
        path=files.config_folder,
        vocabulary=vocabulary,
        size=config.vocab_size - model.deferral_row,
        context_length=config.max_position_embeddings,
        kv_bytes_per_token=per_rank * model.tp,
        file_bytes=sum(file.stat().st_size for file in files.weights) or None,
        rank_memory=_rank_memory(model, files, config, per_rank),
        unchecked=_missing(model, files, f"{field}.path"),
    )


def _check_ranks(model: SglangModel, config: HfConfig, field: str) -> None:
    heads, kv_heads = config.num_attention_heads, config.kv_heads
    if heads % model.tp:
        raise ConfigError(field, f"{heads} attention heads cannot be split over {model.tp} ranks")
    if kv_heads % model.tp and model.tp % kv_heads:
        raise ConfigError(field, f"{kv_heads} KV heads cannot be split over {model.tp} ranks")


def _sglang_vocabulary(
    model: SglangModel, files: HfFiles, config: HfConfig, field: str
) -> Vocabulary | None:
    rows = int(model.deferral_row)
    if model.load_format == "dummy":
        return ByteVocabulary(config.vocab_size - rows, config.max_position_embeddings)
    if files.folder is None:
        return None
    return HfVocabulary(files.folder, config, field, name=model.path, extra_rows=rows)


def _kv_number_bytes(model: SglangModel, config: HfConfig) -> int:
    own = config.dtype_bytes(model.dtype)
    return KV_DTYPE_BYTES.get(model.server_args.get("kv_cache_dtype", "auto"), own)


def _weights_name(model: SglangModel, files: HfFiles) -> str | None:
    """None where the weights are not here, or made up: then names decide."""
    if model.load_format == "dummy" or not files.weights:
        return None
    return weights_fingerprint(*files.weights)


def _rank_memory(
    model: SglangModel, files: HfFiles, config: HfConfig, kv_bytes_per_token: int
) -> tuple[RankMemory, ...]:
    """Empty where the weights' size is not known: neither counted nor here."""
    size = None
    if model.quantization is None:  # else it depends on what SGLang makes of them
        size = config.weight_bytes(config.dtype_bytes(model.dtype))
    size = size or sum(file.stat().st_size for file in files.weights)
    if not size:
        return ()
    return tuple(
        RankMemory(model.name, gpu, -(-size // model.tp), kv_bytes_per_token)
        for gpu in model.rank_gpus
    )


def _missing(model: SglangModel, files: HfFiles, field: str) -> str | None:
    if model.load_format == "dummy" or files.weights:
        return None
    if files.folder is None:
        return _absent(model, "its tokenizer and weights (sizes are those that come with trsched)")
    if is_hub_name(model.path):
        return _absent(model, "its weights")
    raise ConfigError(
        field,
        f"no complete weights (*.safetensors) in {model.path} (load_format: dummy makes some up)",
    )


def _absent(model: SglangModel, what: str) -> str:
    return f"{model.path!r} is not in this machine's cache of the hub: {what} are not checked"
