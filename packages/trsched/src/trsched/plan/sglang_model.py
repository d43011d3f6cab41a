"""Configuration of a model on SGLang, checked without SGLang, a GPU or the model's files."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from trrouters import Need
from trsched.errors import ConfigError
from trsched.request import ModelSampling

Dtype = Literal["auto", "bfloat16", "float16", "float32"]
LoadFormat = Literal["auto", "safetensors", "dummy"]
Quantization = Literal[
    "awq",
    "awq_marlin",
    "bitsandbytes",
    "compressed-tensors",
    "fp8",
    "gptq",
    "gptq_marlin",
    "modelopt",
    "modelopt_fp4",
    "modelopt_fp8",
    "mxfp4",
    "w8a8_fp8",
    "w8a8_int8",
]

KV_DTYPE_BYTES = {"bf16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Values of SGLang's argument `kv_cache_dtype` beside `auto`, which is the model's own type."""

_SET_BY_US = {
    "model_path": "path",
    "tokenizer_path": "path",
    "revision": "revision",
    "tp_size": "tp",
    "base_gpu_id": "gpus",
    "gpu_id_step": "gpus",
    "dtype": "dtype",
    "load_format": "load_format",
    "quantization": "quantization",
    "context_length": "the group's context",
    "max_total_tokens": "the group's kv_memory",
    "max_running_requests": "the group's max_active",
    "served_model_name": "the server's served_name",
    "host": "the server's host",
    "port": "the server's port",
    "api_key": "the server's api_key",
}
"""SGLang's arguments that have a setting of ours, and its name."""

_FIXED = frozenset(
    {
        "device",
        "disable_overlap_schedule",
        "disaggregation_mode",
        "dist_init_addr",
        "dp_size",
        "enable_mixed_chunk",
        "nccl_port",
        "nnodes",
        "node_rank",
        "pp_size",
        "return_hidden_states_mode",
        "sampling_backend",
        "schedule_policy",
        "skip_tokenizer_init",
        "speculative_algorithm",
        "watchdog_timeout",
    }
)
"""Arguments that token-level routing needs as they are."""


class SglangModel(
    msgspec.Struct, frozen=True, tag_field="engine", tag="sglang", forbid_unknown_fields=True
):
    """A Hugging Face checkpoint on SGLang.

    path: folder, `package://PACKAGE/FOLDER`, or the model's name on the Hugging Face hub
        (OWNER/NAME), of which `revision` is a branch, tag or commit.
    tp: tensor-parallel ranks, each a process on a GPU of its own.
    gpus: which GPUs, one for each rank (default: 0, 1, …: models share GPUs unless told otherwise).
    dtype: `auto` is what the checkpoint says.
    load_format: `dummy` makes weights up, for measuring without a download: tokens are then bytes,
        not the tokenizer's.
    quantization: SGLang's name for it, where the checkpoint does not say.
    threshold: B, requests that must wait before a batch starts.
    deferral_row: the LM head's last row is no token but Co-LLM's deferral logit, split off before
        softmax and sampling.
    sampling: values that replace the request's own for the tokens that this model makes.
    server_args: more of SGLang's own arguments, as in its `ServerArgs`.
    """

    name: str
    path: str
    revision: str | None = None
    tp: int = 1
    gpus: list[int] | None = None
    dtype: Dtype = "auto"
    load_format: LoadFormat = "auto"
    quantization: Quantization | None = None
    threshold: int = 1
    deferral_row: bool = False
    sampling: ModelSampling = ModelSampling()
    server_args: dict[str, Any] = {}

    engine_name: ClassVar[str] = "sglang"

    @property
    def provides(self) -> frozenset[Need]:
        """What the engine can show a router."""
        always: frozenset[Need] = frozenset({"logits", "hidden_states", "token_embedding"})
        return always | {"extra_logits"} if self.deferral_row else always

    @property
    def ranks(self) -> int:
        """Processes that hold a part of the model each."""
        return self.tp

    @property
    def rank_gpus(self) -> list[int]:
        """The GPU of each rank."""
        return list(range(self.tp)) if self.gpus is None else self.gpus

    def check(self, field: str) -> None:
        """Raises ConfigError naming the setting below `field`."""
        if self.tp < 1:
            raise ConfigError(f"{field}.tp", f"must be at least 1, not {self.tp}")
        if self.gpus is not None:
            if len(self.gpus) != self.tp:
                raise ConfigError(
                    f"{field}.gpus", f"{len(self.gpus)} GPUs for {self.tp} ranks (tp): one for each"
                )
            if min(self.gpus) < 0 or len(set(self.gpus)) < self.tp:
                raise ConfigError(
                    f"{field}.gpus", f"{self.gpus} are not {self.tp} different GPU numbers"
                )
        for name, value in self.server_args.items():
            if name in _SET_BY_US:
                message = f"trserve sets it: use {_SET_BY_US[name]}"
                raise ConfigError(f"{field}.server_args.{name}", message)
            if name in _FIXED:
                message = "token-level routing needs it as it is"
                raise ConfigError(f"{field}.server_args.{name}", message)
            if name == "kv_cache_dtype" and value not in ("auto", *KV_DTYPE_BYTES):
                known = ", ".join(("auto", *KV_DTYPE_BYTES))
                raise ConfigError(f"{field}.server_args.{name}", f"{value!r} is none of {known}")
