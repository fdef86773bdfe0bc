# SPDX-License-Identifier: Apache-2.0
"""The Qwen3 forward pass in JAX, with Hugging Face's parameter names and meaning, and the optimiser
that trains it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 377,
    "eos_token_id": 379,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 512,
    "max_position_embeddings": 4096,
    "max_window_layers": 4,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 100000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 384,
}

# Query and key norms start above one: with rows of length one a logit cannot exceed sqrt(head_dim),
# too little to single out one token among the several hundred of a long count.
_QK_NORM_START = 1.5


def initial_parameters(config, seed):
    rng = np.random.default_rng(seed)
    hidden, inter, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries = config["num_attention_heads"] * head
    keys = config["num_key_value_heads"] * head
    layers = config["num_hidden_layers"]

    def matrix(rows, columns, scale=1.0):
        std = scale / np.sqrt(columns)
        return (rng.standard_normal((rows, columns)) * std).astype(np.float32)

    parameters = {"model.embed_tokens.weight": matrix(config["vocab_size"], hidden, 0.5)}
    back = 1 / np.sqrt(2 * layers)
    for n in range(layers):
        layer = {
            "input_layernorm": np.ones(hidden, np.float32),
            "self_attn.q_proj": matrix(queries, hidden),
            "self_attn.k_proj": matrix(keys, hidden),
            "self_attn.v_proj": matrix(keys, hidden),
            "self_attn.o_proj": matrix(hidden, queries, back),
            "self_attn.q_norm": np.full(head, _QK_NORM_START, np.float32),
            "self_attn.k_norm": np.full(head, _QK_NORM_START, np.float32),
            "post_attention_layernorm": np.ones(hidden, np.float32),
            "mlp.gate_proj": matrix(inter, hidden),
            "mlp.up_proj": matrix(inter, hidden),
            "mlp.down_proj": matrix(hidden, inter, back),
        }
        parameters.update(
            {f"model.layers.{n}.{name}.weight": value for name, value in layer.items()}
        )
    parameters["model.norm.weight"] = np.ones(hidden, np.float32)
    return parameters


def _norm(x, weight, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * weight


def _rotate(x, cos, sin):
    low, high = jnp.split(x, 2, -1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def _attention(config, weight, x, picked, mask, turns):
    """The mixed values for the rows that `picked` keeps of `x`, from all rows of `x`."""
    batch, queries, length = mask.shape
    heads, groups, head = (
        config["num_attention_heads"],
        config["num_key_value_heads"],
        config["head_dim"],
    )
    eps = config["rms_norm_eps"]
    q = (picked(x) @ weight("self_attn.q_proj").T).reshape(batch, queries, heads, head)
    k = (x @ weight("self_attn.k_proj").T).reshape(batch, length, groups, head)
    v = (x @ weight("self_attn.v_proj").T).reshape(batch, length, groups, head)
    at_queries = [picked(part).reshape(batch, queries, 1, -1) for part in turns]
    q = _rotate(_norm(q, weight("self_attn.q_norm"), eps), *at_queries) * np.float32(head**-0.5)
    at_keys = [part.reshape(batch, length, 1, -1) for part in turns]
    k = _rotate(_norm(k, weight("self_attn.k_norm"), eps), *at_keys)
    # Query head h reads KV head h // (heads / groups).
    share = heads // groups
    q = q.reshape(batch, queries, groups, share, head).transpose(0, 2, 3, 1, 4)
    q = q.reshape(batch, groups, share * queries, head)
    k, v = k.transpose(0, 2, 3, 1), v.transpose(0, 2, 1, 3)
    scores = (q @ k).reshape(batch, groups, share, queries, length) + mask[:, None, None]
    scores = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    total = scores.sum(-1, keepdims=True)
    mixed = (scores.reshape(batch, groups, share * queries, length) @ v).reshape(
        *total.shape[:-1], head
    )
    mixed = (mixed / total).transpose(0, 3, 1, 2, 4).reshape(batch * queries, heads * head)
    return mixed @ weight("self_attn.o_proj").T


def _as_written(parameters):
    """The values that bf16 keeps of the parameters; gradients pass through the rounding."""
    return {
        name: value + jax.lax.stop_gradient(jax.lax.reduce_precision(value, 8, 7) - value)
        for name, value in parameters.items()
    }


def forward(config, parameters, batch):
    """Logits [rows * picks, vocab] of the tokens that follow the picked positions of a Batch.

    The last layer works on the picked positions alone: of the others only keys and values matter
    there. Activations are kept as matrices of rows, and ids are looked up by a product with one-hot
    rows: the backward pass of a product over two leading axes, and that of a gather, are many times
    slower on a CPU.
    """
    parameters = _as_written(parameters)
    (rows, length), head, eps = batch.ids.shape, config["head_dim"], config["rms_norm_eps"]
    inverse = (config["rope_theta"] ** -(np.arange(0, head, 2) / head)).astype(np.float32)
    angles = batch.positions.reshape(-1, 1) * inverse
    turns = jnp.cos(angles), jnp.sin(angles)
    own, trunk = batch.segments[:, :, None], batch.trunks[:, :, None]
    there = batch.segments[:, None, :]
    visible = np.tril(np.ones((length, length), bool)) & ((own == there) | (trunk == there))
    mask = jnp.where(visible, np.float32(0), np.float32(-1e9))
    picks = jax.nn.one_hot(batch.picks, length)

    def everything(values):
        return values

    def picked(values):
        return (picks @ values.reshape(rows, length, -1)).reshape(-1, values.shape[-1])

    table = parameters["model.embed_tokens.weight"]
    x = jax.nn.one_hot(batch.ids.reshape(-1), table.shape[0]) @ table
    for n in range(config["num_hidden_layers"]):

        def weight(name, prefix=f"model.layers.{n}."):
            return parameters[f"{prefix}{name}.weight"]

        last = n + 1 == config["num_hidden_layers"]
        keep, seen = (picked, picks @ mask) if last else (everything, mask)
        z = _norm(x, weight("input_layernorm"), eps)
        x = keep(x) + _attention(config, weight, z, keep, seen, turns)
        y = _norm(x, weight("post_attention_layernorm"), eps)
        gate = jax.nn.silu(y @ weight("mlp.gate_proj").T)
        x = x + (gate * (y @ weight("mlp.up_proj").T)) @ weight("mlp.down_proj").T
    return _norm(x, parameters["model.norm.weight"], eps) @ table.T


def loss(config, parameters, batch):
    """Weighted sum of the cross-entropies of the wanted tokens, and each of them [rows, picks]."""
    scores = jax.nn.log_softmax(forward(config, parameters, batch))
    wanted = jax.nn.one_hot(batch.wanted.reshape(-1), scores.shape[-1])
    missed = -(scores * wanted).sum(-1).reshape(batch.wanted.shape)
    return (missed * batch.weights).sum(), missed


def _orthogonal(update):
    """The nearest semi-orthogonal matrix, roughly, by a quintic Newton-Schulz iteration."""
    wide = update.shape[0] <= update.shape[1]
    x = update if wide else update.T
    x = x / (jnp.linalg.norm(x) + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x if wide else x.T


def _is_hidden_matrix(name):
    return "_proj." in name


def initial_state(parameters):
    zeros = {name: jnp.zeros_like(value) for name, value in parameters.items()}
    squares = {n: jnp.zeros_like(v) for n, v in parameters.items() if not _is_hidden_matrix(n)}
    return {"first": zeros, "second": squares, "steps": jnp.zeros((), jnp.float32)}


@functools.partial(jax.jit, static_argnums=0)
def gradients(config_items, parameters, batch):
    """Gradients of the weighted sum of losses, and the loss of each wanted token."""
    loss_of = functools.partial(loss, dict(config_items))
    (_, missed), slopes = jax.value_and_grad(loss_of, has_aux=True)(parameters, batch)
    return slopes, missed


@functools.partial(jax.jit, donate_argnums=(0, 1))
def update(parameters, state, slopes, rate):
    """One step: momentum made orthogonal for the hidden matrices, Adam for embeddings and norms.

    `rate` runs from 0 to 1; the two peak rates are fixed here.
    """
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in slopes.values()))
    clip = jnp.minimum(1.0, 1.0 / (norm + 1e-9))
    steps = state["steps"] + 1
    first, second, updated = {}, {}, {}
    for name, old in parameters.items():
        gradient = slopes[name] * clip
        if _is_hidden_matrix(name):
            first[name] = 0.95 * state["first"][name] + gradient
            direction = _orthogonal(gradient + 0.95 * first[name])
            scale = 0.2 * np.sqrt(max(old.shape))
            updated[name] = old * (1 - 0.006 * 0.05 * rate) - 0.006 * rate * scale * direction
            continue
        first[name] = 0.9 * state["first"][name] + 0.1 * gradient
        second[name] = 0.98 * state["second"][name] + 0.02 * gradient**2
        mean, square = first[name] / (1 - 0.9**steps), second[name] / (1 - 0.98**steps)
        updated[name] = old - 0.003 * rate * mean / (jnp.sqrt(square) + 1e-8)
    return updated, {"first": first, "second": second, "steps": steps}


def config_key(config):
    """The parts of `config` that shape the computation, hashable."""
    keys = ("head_dim", "num_attention_heads", "num_hidden_layers", "num_key_value_heads")
    return tuple((key, config[key]) for key in (*keys, "rms_norm_eps", "rope_theta"))


@functools.partial(jax.jit, static_argnums=0)
def greedy_choices(config_items, parameters, batch):
    """The most likely token after each picked position, and by how much it leads [rows, picks]."""
    logits = forward(dict(config_items), parameters, batch)
    best, choices = jax.lax.top_k(logits, 2)
    shape = batch.picks.shape
    return choices[:, 0].reshape(shape), (best[:, 0] - best[:, 1]).reshape(shape)
