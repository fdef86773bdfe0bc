# SPDX-License-Identifier: Apache-2.0
"""Reads the keys of a GGUF file, and makes a Hugging Face tokenizer.json of SmolLM2's."""

import struct

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL = 3


def read(path):
    """The keys with their values; strings as text."""
    with open(path, "rb") as file:

        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def value(kind):
            if kind == _STRING:
                return file.read(number("Q")).decode("utf-8")
            if kind == _ARRAY:
                element, count = number("I"), number("Q")
                return [value(element) for _ in range(count)]
            return number(_NUMBERS[kind])

        if file.read(4) != b"GGUF" or number("I") not in (2, 3):
            raise ValueError(f"{path}: expected GGUF 2 or 3")
        number("Q")
        return {value(_STRING): value(number("I")) for _ in range(number("Q"))}


def smollm2_tokenizer(metadata):
    """tokenizer.json with the pre-tokenizer that SmolLM2's own has: digits one by one, then GPT-2's expression."""
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": token, **flags} for i, token in enumerate(tokens) if types[i] == _CONTROL]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": metadata["tokenizer.ggml.merges"]},
    }
