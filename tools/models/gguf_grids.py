# SPDX-License-Identifier: Apache-2.0
"""The grids of GGUF's IQ types, from the sets of bits that the server has them as."""

import os
import re

import numpy as np

_SETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "libs", "gguf", "src", "grid_sets.h")


def grid(name, levels, width):
    """The points of a set of grid_sets.h: rows of `width` levels, in their order in the format."""
    with open(_SETS, encoding="ascii") as file:
        words = re.search(rf"{name} = {{(.*?)}};", file.read(), re.DOTALL).group(1)
    bits = np.array([int(word, 16) for word in words.split(",")], "<u8").view(np.uint8)
    numbers = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    return np.asarray(levels)[numbers[:, None] // len(levels) ** np.arange(width) % len(levels)]
