# SPDX-License-Identifier: Apache-2.0
"""The decoded float32 weights of a GGUF file of the llama architecture under Hugging Face's names, by
the `gguf` package of the llama.cpp project: reading and decoding share nothing with the server.
"""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from .gguf_names import gguf_name


def decoded(tensor):
    """float32 values of one tensor of a GGUFReader, rows first."""
    shape = [int(n) for n in reversed(tensor.shape)]
    return dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)


class DecodedGguf:
    """Looks like an hf_folder.Folder: `config`, `tensor(name)`, `in`."""

    def __init__(self, path):
        self._reader = GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self._decoded = {}
        self.config = self._read_config()

    def __contains__(self, name):
        return gguf_name(name) in self._tensors

    def tensor(self, name):
        if name not in self._decoded:
            values = decoded(self._tensors[gguf_name(name)])
            self._decoded[name] = self._rows_in_hf_order(name, values)
        return self._decoded[name]

    def field(self, name):
        return self._reader.fields[name].contents()

    def _read_config(self):
        architecture = self.field("general.architecture")
        if architecture != "llama" or "rope_freqs.weight" in self._tensors:
            raise ValueError(f"expected the llama architecture without rope scaling: {architecture!r}")
        heads = self.field("llama.attention.head_count")
        return {
            "model_type": "llama",
            "hidden_size": self.field("llama.embedding_length"),
            "num_hidden_layers": self.field("llama.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.field("llama.attention.head_count_kv"),
            "head_dim": self.field("llama.embedding_length") // heads,
            "rms_norm_eps": self.field("llama.attention.layer_norm_rms_epsilon"),
            "rope_theta": self.field("llama.rope.freq_base"),
            "vocab_size": len(self.field("tokenizer.ggml.tokens")),
            "tie_word_embeddings": "output.weight" not in self._tensors,
        }

    def _rows_in_hf_order(self, name, values):
        """GGUF stores each head of queries and keys with the rotated pairs side by side."""
        for part, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads")):
            if f".self_attn.{part}_proj." in name:
                pairs = values.reshape(self.config[heads], -1, 2, *values.shape[1:])
                return pairs.swapaxes(1, 2).reshape(values.shape)
        return values
