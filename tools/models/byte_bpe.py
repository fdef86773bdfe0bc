# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE as tokenizer.json describes it: enough to encode and decode for one model folder.

Slow and small on purpose. It is what the training script and the goldens count as the meaning of a
tokenizer.json, so it takes no shortcut that the file format does not state.
"""

import json
import unicodedata

import regex

from .byte_alphabet import byte_alphabet

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


_TO_CHAR = byte_alphabet()
_TO_BYTE = {char: byte for byte, char in _TO_CHAR.items()}


def spell(text):
    """`text` in the alphabet of the vocabulary."""
    return "".join(_TO_CHAR[byte] for byte in text.encode("utf-8"))


class ByteBpe:
    def __init__(self, tokenizer_json):
        model = tokenizer_json["model"]
        self.vocab = model["vocab"]
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
        self._rank = {pair: rank for rank, pair in enumerate(pairs)}
        self.added = {t["content"]: t["id"] for t in tokenizer_json.get("added_tokens", [])}
        self._text_of = {i: t for t, i in self.vocab.items()}
        self._added_text = {i: t for t, i in self.added.items()}
        split = next(
            p for p in tokenizer_json["pre_tokenizer"]["pretokenizers"] if p["type"] == "Split"
        )
        self._split = regex.compile(split["pattern"]["Regex"])
        longest_first = sorted(self.added, key=len, reverse=True)
        self._find_added = regex.compile("|".join(map(regex.escape, longest_first)) or r"(?!)")
        self._pieces = {}

    @classmethod
    def load(cls, folder):
        with open(f"{folder}/tokenizer.json", encoding="utf-8") as file:
            return cls(json.load(file))

    def encode(self, text):
        ids, at = [], 0
        for match in self._find_added.finditer(text):
            ids += self._encode_plain(text[at : match.start()])
            ids.append(self.added[match.group()])
            at = match.end()
        return ids + self._encode_plain(text[at:])

    def decode(self, ids):
        out = b""
        for i in ids:
            if i in self._added_text:
                out += self._added_text[i].encode("utf-8")
            else:
                out += bytes(_TO_BYTE[char] for char in self._text_of[i])
        return out.decode("utf-8", errors="replace")

    def _encode_plain(self, text):
        ids = []
        for match in self._split.finditer(unicodedata.normalize("NFC", text)):
            piece = match.group()
            if piece not in self._pieces:
                self._pieces[piece] = self._merge(piece)
            ids += self._pieces[piece]
        return ids

    def _merge(self, piece):
        symbols = list(spell(piece))
        while len(symbols) > 1:
            ranks = [self._rank.get(pair, len(self._rank)) for pair in zip(symbols, symbols[1:])]
            best = min(ranks)
            if best == len(self._rank):
                break
            merged, at = [], 0
            while at < len(symbols):
                pair = tuple(symbols[at : at + 2])
                if len(pair) == 2 and self._rank.get(pair) == best:
                    merged.append(pair[0] + pair[1])
                    at += 2
                else:
                    merged.append(symbols[at])
                    at += 1
            symbols = merged
        return [self.vocab[symbol] for symbol in symbols]
