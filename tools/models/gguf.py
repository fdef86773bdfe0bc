# SPDX-License-Identifier: Apache-2.0
"""Writes a Qwen3 checkpoint as a GGUF file in float32, so that another implementation can load the
very same weights. (From bf16 matrices llama.cpp rounds activations to bf16 too, and would be no
float32 reference.)
"""

import json
import os
import struct

import numpy as np

from .hf_folder import from_bf16, to_bf16

_ALIGNMENT = 32
_F32, _ALL_F32 = 0, 0
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_LAYER_NAMES = {
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
_OUTER_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def _name(hf_name):
    if hf_name in _OUTER_NAMES:
        return _OUTER_NAMES[hf_name]
    layer, rest = hf_name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{_LAYER_NAMES[rest.removesuffix('.weight')]}.weight"


def _text(value):
    data = value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _field(key, value):
    head = _text(key)
    if isinstance(value, bool):
        return head + struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return head + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return head + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return head + struct.pack("<I", 8) + _text(value)
    if isinstance(value, np.ndarray):
        return head + struct.pack("<IIQ", 9, 5, len(value)) + value.astype("<i4").tobytes()
    return head + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))


def _vocabulary(tokenizer_json, size):
    tokens = [f"[PAD{n}]" for n in range(size)]
    types = np.full(size, _UNUSED)
    for token, n in tokenizer_json["model"]["vocab"].items():
        tokens[n], types[n] = token, _NORMAL
    for added in tokenizer_json["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = _CONTROL if added["special"] else _USER_DEFINED
    return tokens, types


def _fields(config, tokenizer_json):
    tokens, types = _vocabulary(tokenizer_json, config["vocab_size"])
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer_json["model"]["merges"]]
    return {
        "general.architecture": "qwen3",
        "general.alignment": _ALIGNMENT,
        "general.file_type": _ALL_F32,
        "qwen3.block_count": config["num_hidden_layers"],
        "qwen3.context_length": config["max_position_embeddings"],
        "qwen3.embedding_length": config["hidden_size"],
        "qwen3.feed_forward_length": config["intermediate_size"],
        "qwen3.attention.head_count": config["num_attention_heads"],
        "qwen3.attention.head_count_kv": config["num_key_value_heads"],
        "qwen3.attention.key_length": config["head_dim"],
        "qwen3.attention.value_length": config["head_dim"],
        "qwen3.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "qwen3.rope.freq_base": float(config["rope_theta"]),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.add_bos_token": False,
    }


def _scaling_fields(scaling):
    kind = scaling["rope_type"]
    if kind not in ("linear", "yarn"):
        raise ValueError(f"rope scaling {kind!r} has no field in GGUF; only linear and yarn have")
    fields = {
        "qwen3.rope.scaling.type": kind,
        "qwen3.rope.scaling.factor": float(scaling["factor"]),
    }
    if kind == "yarn":
        context = scaling["original_max_position_embeddings"]
        fields["qwen3.rope.scaling.original_context_length"] = context
    return fields


def write(path, folder):
    """`folder`: an hf_folder.Folder."""
    with open(os.path.join(folder.path, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer_json = json.load(file)
    names = folder.names()
    info, offset = b"", 0
    for name in names:
        shape = folder.shape(name)
        info += _text(_name(name)) + struct.pack("<I", len(shape))
        info += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", _F32, offset)
        size = int(np.prod(shape)) * 4
        offset += size + -size % _ALIGNMENT
    fields = _fields(folder.config, tokenizer_json)
    if folder.config.get("rope_scaling"):
        fields.update(_scaling_fields(folder.config["rope_scaling"]))
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(names), len(fields)))
        file.write(b"".join(_field(key, value) for key, value in fields.items()) + info)
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        for name in names:
            raw = from_bf16(to_bf16(folder.tensor(name)))
            raw.tofile(file)
            file.write(b"\0" * (-raw.nbytes % _ALIGNMENT))
