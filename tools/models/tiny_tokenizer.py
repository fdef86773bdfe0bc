# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of the built-in model, as the files of a Hugging Face folder.

256 bytes and a few merges. Digits and the letters inside a lower-case word never merge: the model's
tasks work on single characters, and a merge inside a word would hide its letters. The merges that
exist (a space before a letter, capitalised words, line ends, two-byte letters, typographic marks)
are there so that serving code meets every kind of token: longer than a byte, shorter than a
character, and special.
"""

import os

from .byte_bpe import QWEN_SPLIT, byte_alphabet, spell
from .hf_folder import write_json

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIALS = [END_OF_TEXT, TURN_START, TURN_END]

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

_WORDS = [
    "Can",
    "Count",
    "Hello",
    "Help",
    "Hi",
    "How",
    "I",
    "Please",
    "Reverse",
    "Sort",
    "The",
    "This",
]
_WORDS += ["Try", "What", "Who", "You"]
_SPACES = ["  ", "    ", "        ", "\n\n", "\n\n\n\n", "\r\n", "\t\t"]
_MARKS = ["…", "–", "—", "‘", "’", "“", "”", "•", "€", "→", "×", "÷", "°", "£"]


def _merges():
    """Ordered merges; each chain builds its text from the left."""
    chains = [" " + chr(letter) for letter in range(ord("a"), ord("z") + 1)]
    chains += _WORDS + _SPACES + [chr(code) for code in range(0xE0, 0x100) if code != 0xF7] + _MARKS
    merges = []
    for text in chains:
        symbols = list(spell(text))
        if text in _SPACES and len(symbols) > 2:
            half = "".join(symbols[: len(symbols) // 2])
            merges.append((half, half))
            continue
        for n in range(1, len(symbols)):
            pair = ("".join(symbols[:n]), symbols[n])
            if pair not in merges:
                merges.append(pair)
    return merges


def tokenizer_json():
    vocab = {char: n for n, char in enumerate(sorted(byte_alphabet().values()))}
    merges = _merges()
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    added = [
        {
            "id": len(vocab) + n,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for n, text in enumerate(SPECIALS)
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": QWEN_SPLIT},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
        },
    }


def write(folder, context):
    tokenizer = tokenizer_json()
    write_json(os.path.join(folder, "tokenizer.json"), tokenizer)
    decoder = {
        str(t["id"]): {key: value for key, value in t.items() if key != "id"}
        for t in tokenizer["added_tokens"]
    }
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "additional_special_tokens": [TURN_START, TURN_END],
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": TURN_END,
        "errors": "replace",
        "model_max_length": context,
        "pad_token": END_OF_TEXT,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    write_json(os.path.join(folder, "tokenizer_config.json"), config)
