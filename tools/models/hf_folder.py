# SPDX-License-Identifier: Apache-2.0
"""Reading and writing Hugging Face model folders: config.json and safetensors, single or sharded,
without torch.
"""

import json
import os
import struct

import numpy as np

_WIDTH = {"BF16": 2, "F16": 2, "F32": 4}


def to_bf16(values):
    """float32 to the 16-bit patterns of bfloat16, rounded to nearest even. Finite input only."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(patterns):
    return (patterns.astype(np.uint32) << 16).view(np.float32)


def encode(values, dtype):
    """float32 as the raw array that a tensor of `dtype` (BF16, F16 or F32) is stored as."""
    if dtype == "BF16":
        return to_bf16(values)
    return np.ascontiguousarray(values, {"F16": np.float16, "F32": np.float32}[dtype])


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def write_safetensors(path, tensors, dtype):
    """`tensors`: name -> raw array as `encode` makes it. The header is padded so that the data is
    8-byte aligned.
    """
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, raw in tensors.items():
        span = [offset, offset + raw.nbytes]
        header[name] = {"dtype": dtype, "shape": list(raw.shape), "data_offsets": span}
        offset += raw.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for raw in tensors.values():
            raw.tofile(file)


def write_sharded(folder, tensors, dtype, shards):
    """Splits `tensors` in order over `shards` files of about equal size and writes the index beside
    them.
    """
    total = sum(raw.nbytes for raw in tensors.values())
    parts, done = [{} for _ in range(shards)], 0
    for name, raw in tensors.items():
        parts[min(shards - 1, done * shards // total)][name] = raw
        done += raw.nbytes
    weight_map = {}
    for n, part in enumerate(parts):
        file = f"model-{n + 1:05d}-of-{shards:05d}.safetensors"
        write_safetensors(os.path.join(folder, file), part, dtype)
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(os.path.join(folder, "model.safetensors.index.json"), index)


class Folder:
    """One model folder. `config` is config.json; `tensor(name)` is a float32 array."""

    def __init__(self, path):
        self.path = path
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self._found = {}
        for file in self._weight_files():
            self._read_header(os.path.join(path, file))

    def __contains__(self, name):
        return name in self._found

    def names(self):
        return list(self._found)

    def shape(self, name):
        return self._found[name][2]["shape"]

    def tensor(self, name):
        path, start, entry = self._found[name]
        begin, end = entry["data_offsets"]
        count = (end - begin) // _WIDTH[entry["dtype"]]
        stored = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32}[entry["dtype"]]
        raw = np.fromfile(path, stored, count, offset=start + begin).reshape(entry["shape"])
        return from_bf16(raw) if entry["dtype"] == "BF16" else raw.astype(np.float32)

    def _weight_files(self):
        index = os.path.join(self.path, "model.safetensors.index.json")
        if not os.path.exists(index):
            return ["model.safetensors"]
        with open(index, encoding="utf-8") as file:
            return sorted(set(json.load(file)["weight_map"].values()))

    def _read_header(self, path):
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                self._found[name] = (path, 8 + length, entry)
