# SPDX-License-Identifier: Apache-2.0
"""How byte-level vocabularies spell bytes."""


def byte_alphabet():
    """The printable character that stands for each of the 256 bytes in a byte-level vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {byte: chr(byte) for byte in plain}
    spare = (byte for byte in range(256) if byte not in alphabet)
    alphabet.update({byte: chr(0x100 + n) for n, byte in enumerate(spare)})
    return alphabet
