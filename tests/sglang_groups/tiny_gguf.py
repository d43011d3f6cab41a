"""A tiny Qwen3 checkpoint as GGUF, in F32: for llama.cpp to compute the same."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
from safetensors.numpy import load_file

_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def write_gguf(folder: Path, target: Path) -> Path:
    """Weights, sizes and vocabulary of the Hugging Face checkpoint in `folder`."""
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(target, "qwen3")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_vocabulary(writer, folder)
    for name, values in load_file(folder / "model.safetensors").items():
        writer.add_tensor(_tensor_name(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _tensor_name(name: str) -> str:
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    number, _, part = name.removeprefix("model.layers.").partition(".")
    return f"blk.{number}.{_LAYER[part.removesuffix('.weight')]}.weight"


def _add_vocabulary(writer: gguf.GGUFWriter, folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    ids = {text: int(number) for text, number in tokenizer["model"]["vocab"].items()}
    types = dict.fromkeys(ids, gguf.TokenType.NORMAL)
    for token in tokenizer["added_tokens"]:
        ids[token["content"]] = token["id"]
        special = token["special"]
        types[token["content"]] = gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED
    ordered = sorted(ids, key=lambda text: ids[text])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(ordered)
    writer.add_token_types([types[text] for text in ordered])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(2)
