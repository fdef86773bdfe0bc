# SPDX-License-Identifier: Apache-2.0
"""A plain float32 forward pass of a Qwen3 folder in numpy: the meaning of a checkpoint, with
nothing made fast.

Written from the published description of the architecture and sharing no code with the server or
the training script.
"""

import math

import numpy as np


def _rope_settings(config):
    """(theta, scaling) from either place that configs keep them in."""
    nested = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or nested
    return float(config.get("rope_theta") or nested["rope_theta"]), scaling


def _llama3(frequencies, scaling):
    factor, context = scaling["factor"], scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = context * frequencies / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - share) * frequencies / factor + share * frequencies


def _yarn(frequencies, scaling, config, theta):
    dim, factor = config["head_dim"], scaling["factor"]
    context = scaling.get("original_max_position_embeddings") or config["max_position_embeddings"]

    def pair_that_turns(times):
        return dim * math.log(context / (times * 2 * math.pi)) / (2 * math.log(theta))

    first = max(math.floor(pair_that_turns(scaling.get("beta_fast") or 32)), 0)
    last = min(math.ceil(pair_that_turns(scaling.get("beta_slow") or 1)), dim - 1)
    span = max(last - first, 0.001)
    stretched = np.clip((np.arange(dim // 2) - first) / span, 0, 1)
    amplitude = scaling.get("attention_factor") or 0.1 * math.log(max(factor, 1)) + 1
    return frequencies / factor * stretched + frequencies * (1 - stretched), amplitude


def rope_table(config, length):
    """(cos, sin), each [length, 1, head_dim / 2]."""
    theta, scaling = _rope_settings(config)
    frequencies = theta ** -(np.arange(0, config["head_dim"], 2) / config["head_dim"])
    kind, amplitude = scaling.get("rope_type") or scaling.get("type") or "default", 1.0
    if kind == "linear":
        frequencies = frequencies / scaling["factor"]
    elif kind == "llama3":
        frequencies = _llama3(frequencies, scaling)
    elif kind == "yarn":
        frequencies, amplitude = _yarn(frequencies, scaling, config, theta)
    elif kind != "default":
        raise ValueError(f"rope scaling {kind!r} is not one of default, linear, llama3, yarn")
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


def _attention(config, weight, x, cos, sin):
    length, head, eps = len(x), config["head_dim"], config["rms_norm_eps"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    q = (x @ weight("self_attn.q_proj").T).reshape(length, heads, head)
    k = (x @ weight("self_attn.k_proj").T).reshape(length, groups, head)
    v = (x @ weight("self_attn.v_proj").T).reshape(length, groups, head)
    q = _rotate(_norm(q, weight("self_attn.q_norm"), eps), cos, sin)
    k = _rotate(_norm(k, weight("self_attn.k_norm"), eps), cos, sin)
    later = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    mixed = np.empty((length, heads, head), np.float32)
    for h in range(heads):
        group = h // (heads // groups)
        scores = q[:, h] @ k[:, group].T / np.float32(math.sqrt(head)) + later
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed[:, h] = scores / scores.sum(-1, keepdims=True) @ v[:, group]
    return mixed.reshape(length, heads * head) @ weight("self_attn.o_proj").T


def forward(folder, ids):
    """Logits [len(ids), vocab] after each of the token ids, read from position 0. `folder`: an
    hf_folder.Folder.
    """
    config, eps = folder.config, folder.config["rms_norm_eps"]
    cos, sin = rope_table(config, len(ids))
    embeddings = folder.tensor("model.embed_tokens.weight")
    x = embeddings[np.asarray(ids)]
    for n in range(config["num_hidden_layers"]):

        def weight(name, layer=n):
            return folder.tensor(f"model.layers.{layer}.{name}.weight")

        x = x + _attention(config, weight, _norm(x, weight("input_layernorm"), eps), cos, sin)
        y = _norm(x, weight("post_attention_layernorm"), eps)
        gate = y @ weight("mlp.gate_proj").T
        y = gate / (1 + np.exp(-gate)) * (y @ weight("mlp.up_proj").T)
        x = x + y @ weight("mlp.down_proj").T
    head = embeddings if config.get("tie_word_embeddings") else folder.tensor("lm_head.weight")
    return _norm(x, folder.tensor("model.norm.weight"), eps) @ head.T
