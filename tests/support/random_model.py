# SPDX-License-Identifier: Apache-2.0
"""Writes Qwen3 checkpoints of any shape with random weights and the built-in model's tokenizer, with nothing but Python.

The answers mean nothing, but they are the same each time; tools/make_synthetic_model makes models whose numbers can be compared.
"""
import json
import math
import os
import random
import shutil
import struct

from phalanx_server import TINY

# layers, hidden, heads, KV heads, head_dim, MLP width, vocabulary, context
SHAPES = {
    "qwen3-0.6b": (28, 1024, 16, 8, 128, 3072, 151936, 40960),
    "wide-kv": (28, 64, 8, 8, 128, 64, 512, 40960),  # weights of a toy, the KV cache of qwen3-0.6b
}
PIECE = 1 << 24  # values
# The high byte of a bf16 number: sign and a small exponent. 0x3C/0xBC: 0.008 to 0.03 in size.
SMALL = bytes(0x3C if byte & 1 else 0xBC for byte in range(256))


def config_of(shape):
    layers, hidden, heads, groups, head, inter, vocab, context = SHAPES[shape]
    with open(os.path.join(TINY, "config.json")) as file:
        config = json.load(file)
    config.update(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=groups,
                  head_dim=head, intermediate_size=inter, vocab_size=vocab, max_position_embeddings=context,
                  max_window_layers=layers, tie_word_embeddings=True)
    return config


def tensors_of(shape):
    """(name, shape of the tensor) in file order."""
    layers, hidden, heads, groups, head, inter, vocab, _ = SHAPES[shape]
    yield "model.embed_tokens.weight", (vocab, hidden)
    for n in range(layers):
        prefix = f"model.layers.{n}."
        yield prefix + "input_layernorm.weight", (hidden,)
        yield prefix + "self_attn.q_proj.weight", (heads * head, hidden)
        yield prefix + "self_attn.k_proj.weight", (groups * head, hidden)
        yield prefix + "self_attn.v_proj.weight", (groups * head, hidden)
        yield prefix + "self_attn.o_proj.weight", (hidden, heads * head)
        yield prefix + "self_attn.q_norm.weight", (head,)
        yield prefix + "self_attn.k_norm.weight", (head,)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield prefix + "mlp.gate_proj.weight", (inter, hidden)
        yield prefix + "mlp.up_proj.weight", (inter, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, inter)
    yield "model.norm.weight", (hidden,)


def values(generator, count):
    piece = bytearray(2 * count)
    piece[0::2] = generator.randbytes(count)
    piece[1::2] = generator.randbytes(count).translate(SMALL)
    return piece


def write_model(folder, shape, seed=1):
    """Makes `folder` with config.json, model.safetensors and the tokenizer."""
    os.makedirs(folder)
    for name in os.listdir(TINY):
        if name.startswith(("tokenizer", "generation_config", "chat_template", "special_tokens", "vocab", "merges")):
            shutil.copy(os.path.join(TINY, name), folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config_of(shape), file)
    header, offset = {}, 0
    for name, size in tensors_of(shape):
        end = offset + 2 * math.prod(size)
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    generator = random.Random(seed)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, size in tensors_of(shape):
            count = math.prod(size)
            if len(size) == 1:
                file.write(b"\x80\x3f" * count)  # gains of 1
                continue
            for at in range(0, count, PIECE):
                file.write(values(generator, min(PIECE, count - at)))
    return folder
