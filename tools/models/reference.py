# SPDX-License-Identifier: Apache-2.0
"""A plain float32 forward pass of a Qwen3, Qwen2 or Llama folder in numpy: the meaning of a
checkpoint, with nothing made fast.

Written from the published descriptions of the architectures and sharing no code with the server or
the training script. They are one transformer: norms of query and key heads and biases of products
are there when the folder has their tensors.
"""

import math

import numpy as np


def _rope_settings(config):
    """(theta, scaling) from either place that configs keep them in."""
    nested = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or nested
    return float(config.get("rope_theta") or nested["rope_theta"]), scaling


def _head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _llama3(frequencies, scaling):
    factor, context = scaling["factor"], scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = context * frequencies / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - share) * frequencies / factor + share * frequencies


def _yarn(frequencies, scaling, config, theta):
    dim, factor = _head_dim(config), scaling["factor"]
    context = scaling.get("original_max_position_embeddings") or config["max_position_embeddings"]

    def pair_that_turns(times):
        return dim * math.log(context / (times * 2 * math.pi)) / (2 * math.log(theta))

    first = max(math.floor(pair_that_turns(scaling.get("beta_fast") or 32)), 0)
    last = min(math.ceil(pair_that_turns(scaling.get("beta_slow") or 1)), dim - 1)
    span = max(last - first, 0.001)
    stretched = np.clip((np.arange(dim // 2) - first) / span, 0, 1)
    amplitude = scaling.get("attention_factor") or 0.1 * math.log(max(factor, 1)) + 1
    return frequencies / factor * stretched + frequencies * (1 - stretched), amplitude


def _rope(config):
    """(frequencies [head_dim / 2] in radians per position, factor of cosine and sine)"""
    theta, scaling = _rope_settings(config)
    dim = _head_dim(config)
    frequencies = theta ** -(np.arange(0, dim, 2) / dim)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "linear":
        return frequencies / scaling["factor"], 1.0
    if kind == "llama3":
        return _llama3(frequencies, scaling), 1.0
    if kind == "yarn":
        return _yarn(frequencies, scaling, config, theta)
    if kind != "default":
        raise ValueError(f"rope scaling {kind!r} is not one of default, linear, llama3, yarn")
    return frequencies, 1.0


def rope_frequencies(config):
    return _rope(config)[0]


def rope_table(config, length):
    """(cos, sin), each [length, 1, head_dim / 2]."""
    frequencies, amplitude = _rope(config)
    angles = np.arange(length)[:, None, None] * frequencies
    return (np.cos(angles) * amplitude).astype(np.float32), (np.sin(angles) * amplitude).astype(
        np.float32
    )


def _norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * weight


def _rotate(x, cos, sin):
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


class _Layer:
    """The weights of one layer; `folder` is an hf_folder.Folder or looks like one."""

    def __init__(self, folder, index):
        self._folder, self._prefix = folder, f"model.layers.{index}."

    def weight(self, name):
        return self._folder.tensor(f"{self._prefix}{name}.weight")

    def product(self, x, name):
        y, bias = x @ self.weight(name).T, f"{self._prefix}{name}.bias"
        return y + self._folder.tensor(bias) if bias in self._folder else y

    def head_norm(self, x, name, eps):
        has_norm = f"{self._prefix}{name}.weight" in self._folder
        return _norm(x, self.weight(name), eps) if has_norm else x


def _attention(config, layer, x, cos, sin):
    length, head, eps = len(x), _head_dim(config), config["rms_norm_eps"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    q = layer.product(x, "self_attn.q_proj").reshape(length, heads, head)
    k = layer.product(x, "self_attn.k_proj").reshape(length, groups, head)
    v = layer.product(x, "self_attn.v_proj").reshape(length, groups, head)
    q = _rotate(layer.head_norm(q, "self_attn.q_norm", eps), cos, sin)
    k = _rotate(layer.head_norm(k, "self_attn.k_norm", eps), cos, sin)
    later = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    mixed = np.empty((length, heads, head), np.float32)
    for h in range(heads):
        group = h // (heads // groups)
        scores = q[:, h] @ k[:, group].T / np.float32(math.sqrt(head)) + later
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed[:, h] = scores / scores.sum(-1, keepdims=True) @ v[:, group]
    return layer.product(mixed.reshape(length, heads * head), "self_attn.o_proj")


def forward(folder, ids):
    """Logits [len(ids), vocab] after each of the token ids, read from position 0. `folder`: an
    hf_folder.Folder, or anything with its `config`, `tensor` and `in`.
    """
    config, eps = folder.config, folder.config["rms_norm_eps"]
    cos, sin = rope_table(config, len(ids))
    embeddings = folder.tensor("model.embed_tokens.weight")
    x = embeddings[np.asarray(ids)]
    for n in range(config["num_hidden_layers"]):
        layer = _Layer(folder, n)
        y = _norm(x, layer.weight("input_layernorm"), eps)
        x = x + _attention(config, layer, y, cos, sin)
        y = _norm(x, layer.weight("post_attention_layernorm"), eps)
        gate = layer.product(y, "mlp.gate_proj")
        y = gate / (1 + np.exp(-gate)) * layer.product(y, "mlp.up_proj")
        x = x + layer.product(y, "mlp.down_proj")
    head = embeddings if config.get("tie_word_embeddings") else folder.tensor("lm_head.weight")
    return _norm(x, folder.tensor("model.norm.weight"), eps) @ head.T
