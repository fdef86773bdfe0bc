# SPDX-License-Identifier: Apache-2.0
"""The best next token at each position of some token sequences, by an implementation other than the server.

    reference_top.py numpy|llama.cpp MODEL.gguf SEQUENCES.json     SEQUENCES: a list of lists of token ids
    reference_top.py vocabulary MODEL.gguf                         the texts of all tokens

Prints JSON. Needs tools/weights_requirements.txt; llama.cpp comes by tools/llama_logits.
"""
import json
import os
import subprocess
import sys
import tempfile

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools")
sys.path.insert(0, TOOLS)

import numpy as np  # noqa: E402
from models import decoded_gguf, reference  # noqa: E402

NORMAL = 1  # type of a token whose text is byte-level encoded


def by_numpy(model, sequences):
    weights = decoded_gguf.DecodedGguf(model)
    return [reference.forward(weights, ids) for ids in sequences]


def by_llama(model, sequences):
    with tempfile.TemporaryDirectory() as folder:
        plain, out = os.path.join(folder, "f32.gguf"), os.path.join(folder, "logits.f32")
        subprocess.run([sys.executable, os.path.join(TOOLS, "decode_gguf"), model, plain], check=True)
        text = "".join(" ".join(map(str, ids)) + "\n" for ids in sequences)
        subprocess.run([os.path.join(TOOLS, "llama_logits"), plain, out], input=text.encode(), check=True)
        rows = np.fromfile(out, np.float32).reshape(sum(map(len, sequences)), -1)
    return [rows]


def tops(rows):
    best = rows.argmax(1)
    first = rows.max(1)
    others = rows.copy()
    others[np.arange(len(rows)), best] = -np.inf
    normal = first + np.log(np.exp(rows - first[:, None]).sum(1))
    columns = zip(best.tolist(), (first - others.max(1)).tolist(), (first - normal).tolist())
    return [{"id": token, "gap": gap, "logprob": logprob} for token, gap, logprob in columns]


def main():
    source, model = sys.argv[1:3]
    if source == "vocabulary":
        weights = decoded_gguf.DecodedGguf(model)
        texts = weights.field("tokenizer.ggml.tokens")
        types = weights.field("tokenizer.ggml.token_type")
        json.dump([{"text": t, "encoded": kind == NORMAL} for t, kind in zip(texts, types)], sys.stdout)
        return
    with open(sys.argv[3]) as file:
        sequences = json.load(file)
    logits = {"numpy": by_numpy, "llama.cpp": by_llama}[source](model, sequences)
    json.dump([top for rows in logits for top in tops(rows)], sys.stdout)


if __name__ == "__main__":
    main()
