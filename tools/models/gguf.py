# SPDX-License-Identifier: Apache-2.0
"""Writes a Qwen3, Qwen2 or Llama checkpoint as GGUF files: in float32 so that another implementation
can load the very same weights, or in another type as a test input. (From bf16 matrices llama.cpp rounds activations to bf16 too, and
would be no float32 reference.)
"""

import json
import os
import struct

import numpy as np

from . import gguf_blocks, reference
from .gguf_names import gguf_name
from .hf_folder import from_bf16, to_bf16

_ALIGNMENT = 32
_F32, _ALL_F32 = 0, 0
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5


def _rows_in_gguf_order(config, name, values):
    """llama.cpp rotates neighbours (2i, 2i + 1) of a head of the llama architecture where Hugging
    Face rotates (i, i + half), so its files hold the rows of queries and keys in another order.
    """
    if config["model_type"] != "llama":
        return values
    if ".q_proj." in name:
        heads = config["num_attention_heads"]
    elif ".k_proj." in name:
        heads = config["num_key_value_heads"]
    else:
        return values
    halves = values.reshape(heads, 2, -1, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


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
    arch = config["model_type"]
    return {
        "general.architecture": arch,
        "general.alignment": _ALIGNMENT,
        "general.file_type": _ALL_F32,
        f"{arch}.block_count": config["num_hidden_layers"],
        f"{arch}.context_length": config["max_position_embeddings"],
        f"{arch}.embedding_length": config["hidden_size"],
        f"{arch}.feed_forward_length": config["intermediate_size"],
        f"{arch}.attention.head_count": config["num_attention_heads"],
        f"{arch}.attention.head_count_kv": config["num_key_value_heads"],
        f"{arch}.attention.key_length": config["head_dim"],
        f"{arch}.attention.value_length": config["head_dim"],
        f"{arch}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        f"{arch}.rope.freq_base": float(config["rope_theta"]),
        f"{arch}.rope.dimension_count": config["head_dim"],
        f"{arch}.vocab_size": config["vocab_size"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.add_bos_token": False,
    }


def _scaling_fields(arch, scaling):
    kind = scaling["rope_type"]
    if kind == "llama3" and arch == "llama":
        return {}
    if kind not in ("linear", "yarn"):
        raise ValueError(f"rope scaling {kind!r} of {arch} cannot be written to GGUF")
    fields = {
        f"{arch}.rope.scaling.type": kind,
        f"{arch}.rope.scaling.factor": float(scaling["factor"]),
    }
    if kind == "yarn":
        context = scaling["original_max_position_embeddings"]
        fields[f"{arch}.rope.scaling.original_context_length"] = context
    return fields


def _tensors(folder):
    """(name in the file, a function that gives the float32 values, shape), in file order."""
    config = folder.config

    def values_of(name):
        return _rows_in_gguf_order(config, name, from_bf16(to_bf16(folder.tensor(name))))

    for name in folder.names():
        yield gguf_name(name), lambda name=name: values_of(name), folder.shape(name)
    scaling = config.get("rope_scaling")
    if scaling and scaling["rope_type"] == "llama3":
        # By what each frequency is divided: GGUF has no fields for this scaling.
        plain = reference.rope_frequencies({**config, "rope_scaling": None})
        divisors = (plain / reference.rope_frequencies(config)).astype(np.float32)
        yield "rope_freqs.weight", lambda: divisors, divisors.shape


def _chat_template(path):
    """The source of the folder's template; empty if there is none."""
    file = os.path.join(path, "tokenizer_config.json")
    if not os.path.exists(file):
        return ""
    with open(file, encoding="utf-8") as source:
        return json.load(source).get("chat_template") or ""


def _all_fields(folder):
    with open(os.path.join(folder.path, "tokenizer.json"), encoding="utf-8") as file:
        fields = _fields(folder.config, json.load(file))
    if folder.config.get("rope_scaling"):
        fields.update(_scaling_fields(folder.config["model_type"], folder.config["rope_scaling"]))
    template = _chat_template(folder.path)
    if template:
        fields["tokenizer.chat_template"] = template
    return fields


def _write_file(path, fields, tensors, type_of):
    """`tensors`: as _tensors() gives them; type_of(name, shape). Vectors and the divisors of rope stay F32."""
    kinds = [type_of(name, shape) for name, _, shape in tensors]
    info, offset = b"", 0
    for (name, _, shape), number in zip(tensors, kinds):
        info += _text(name) + struct.pack("<I", len(shape))
        info += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", number, offset)
        size = int(np.prod(shape)) // gguf_blocks.BLOCK[number] * gguf_blocks.WIDTH[number]
        offset += size + -size % _ALIGNMENT
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)))
        file.write(b"".join(_field(key, value) for key, value in fields.items()) + info)
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        for (_, values, _), number in zip(tensors, kinds):
            data = gguf_blocks.encode(number, values())[0]
            file.write(data + b"\0" * (-len(data) % _ALIGNMENT))


def write(path, folder, choice="F32", splits=1):
    """`folder`: an hf_folder.Folder. Matrices are stored as `choice`, one of gguf_blocks.CHOICES, where its
    blocks fit. The paths of the files that were written.
    """
    layers = folder.config["num_hidden_layers"]

    def type_of(name, shape):
        return gguf_blocks.type_of(choice, name, layers, shape)

    fields, tensors = _all_fields(folder), list(_tensors(folder))
    if splits == 1:
        _write_file(path, fields, tensors, type_of)
        return [path]
    paths = []
    for n in range(splits):
        part = tensors[n * len(tensors) // splits : (n + 1) * len(tensors) // splits]
        keys = {"split.no": n, "split.count": splits, "split.tensors.count": len(tensors)}
        paths.append(f"{path.removesuffix('.gguf')}-{n + 1:05d}-of-{splits:05d}.gguf")
        _write_file(paths[-1], {**fields, **keys} if n == 0 else keys, part, type_of)
    return paths
