# SPDX-License-Identifier: Apache-2.0
"""Simple encoders of some GGUF tensor types, for test files: each gives the bytes and what they
decode to. Nearest values with plain scales; real encoders search for better ones.
"""

import numpy as np

from . import gguf_grids

F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K = 0, 1, 2, 3, 6, 7, 8, 10, 11
Q4_K, Q5_K, Q6_K, IQ4_NL, IQ3_S, IQ4_XS, BF16, MXFP4, NVFP4, Q1_0, Q2_0 = 12, 13, 14, 20, 21, 23, 30, 39, 40, 41, 42
NUMBERS = {"F32": F32, "F16": F16, "BF16": BF16, "Q8_0": Q8_0, "Q4_0": Q4_0, "Q4_1": Q4_1, "Q5_0": Q5_0, "Q5_1": Q5_1,
           "Q2_K": Q2_K, "Q3_K": Q3_K, "Q4_K": Q4_K, "Q5_K": Q5_K, "Q6_K": Q6_K, "IQ3_S": IQ3_S, "IQ4_NL": IQ4_NL, "IQ4_XS": IQ4_XS, "MXFP4": MXFP4,
           "NVFP4": NVFP4, "Q1_0": Q1_0, "Q2_0": Q2_0}
BLOCK = {F32: 1, F16: 1, BF16: 1, Q8_0: 32, Q4_0: 32, Q4_1: 32, Q5_0: 32, Q5_1: 32, Q2_K: 256, Q3_K: 256, Q4_K: 256,
         Q5_K: 256, Q6_K: 256, IQ3_S: 256, IQ4_NL: 32, IQ4_XS: 256, MXFP4: 32, NVFP4: 64, Q1_0: 128, Q2_0: 64}
WIDTH = {F32: 4, F16: 2, BF16: 2, Q8_0: 34, Q4_0: 18, Q4_1: 20, Q5_0: 22, Q5_1: 24, Q2_K: 84, Q3_K: 110, Q4_K: 144,
         Q5_K: 176, Q6_K: 210, IQ3_S: 110, IQ4_NL: 18, IQ4_XS: 136, MXFP4: 17, NVFP4: 36, Q1_0: 18, Q2_0: 18}


def _half(values):
    """As binary16, and back as float32."""
    half = np.asarray(values, np.float16)
    return half, half.astype(np.float32)


def _codes(values, scale, most):
    safe = np.where(scale == 0, np.float32(1), scale)
    return np.clip(np.rint(values / safe), 0, most).astype(np.uint8)


def _largest(values):
    """Along the last axis, with their signs."""
    return np.take_along_axis(values, np.abs(values).argmax(axis=-1, keepdims=True), axis=-1)


def _q8_0(blocks):
    half, d = _half(np.abs(blocks).max(axis=1, keepdims=True) / 127)
    safe = np.where(d == 0, np.float32(1), d)
    codes = np.clip(np.rint(blocks / safe), -127, 127).astype(np.int8)
    return np.hstack([half.view(np.uint8), codes.view(np.uint8)]), d * codes.astype(np.float32)


def _q4_0(blocks):
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1, keepdims=True), axis=1)
    half, d = _half(largest / -8)
    safe = np.where(d == 0, np.float32(1), d)
    codes = (np.clip(np.rint(blocks / safe), -8, 7) + 8).astype(np.uint8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    return np.hstack([half.view(np.uint8), packed]), d * (codes.astype(np.float32) - 8)


def _q4_1(blocks):
    low = blocks.min(axis=1, keepdims=True)
    half, d = _half((blocks.max(axis=1, keepdims=True) - low) / 15)
    half_low, m = _half(low)
    codes = _codes(blocks - m, d, 15)
    packed = codes[:, :16] | codes[:, 16:] << 4
    data = np.hstack([half.view(np.uint8), half_low.view(np.uint8), packed])
    return data, d * codes.astype(np.float32) + m


def _fives(codes):
    """The fifth bits of 32 codes, and the others in nibbles."""
    return np.packbits(codes >> 4, axis=1, bitorder="little"), codes[:, :16] & 15 | (codes[:, 16:] & 15) << 4


def _q5_0(blocks):
    half, d = _half(_largest(blocks) / -16)
    safe = np.where(d == 0, np.float32(1), d)
    codes = (np.clip(np.rint(blocks / safe), -16, 15) + 16).astype(np.uint8)
    return np.hstack([half.view(np.uint8), *_fives(codes)]), d * (codes.astype(np.float32) - 16)


def _q5_1(blocks):
    low = blocks.min(axis=1, keepdims=True)
    half, d = _half((blocks.max(axis=1, keepdims=True) - low) / 31)
    half_low, m = _half(low)
    codes = _codes(blocks - m, d, 31)
    return np.hstack([half.view(np.uint8), half_low.view(np.uint8), *_fives(codes)]), d * codes.astype(np.float32) + m


def _q2_k(blocks):
    runs = blocks.reshape(-1, 16, 16)
    low = np.minimum(runs.min(axis=2), 0)
    step = (runs.max(axis=2) - low) / 3
    half, d = _half(step.max(axis=1, keepdims=True) / 15)
    half_min, dmin = _half(-low.min(axis=1, keepdims=True) / 15)
    s, n = _codes(step, d, 15), _codes(-low, dmin, 15)
    scale = (d * s.astype(np.float32))[:, :, None]
    minimum = (dmin * n.astype(np.float32))[:, :, None]
    codes = _codes(runs + minimum, scale, 3)
    quarters = codes.reshape(-1, 2, 4, 32)  # half, a, j
    packed = sum(quarters[:, :, a] << (2 * a) for a in range(4)).reshape(-1, 64)
    data = np.hstack([s | n << 4, packed, half.view(np.uint8), half_min.view(np.uint8)])
    return data, (scale * codes.astype(np.float32) - minimum).reshape(blocks.shape)


def _q3_k(blocks):
    runs = blocks.reshape(-1, 16, 16)
    largest = np.take_along_axis(runs, np.abs(runs).argmax(axis=2, keepdims=True), axis=2)[:, :, 0]
    step = largest / -4
    half, d = _half(np.abs(step).max(axis=1, keepdims=True) / 31)
    s = np.clip(np.rint(step / np.where(d == 0, np.float32(1), d)), -31, 31)
    scale = (d * s.astype(np.float32))[:, :, None]
    codes = np.clip(np.rint(runs / np.where(scale == 0, np.float32(1), scale)), -4, 3)
    stored = (codes + 4).astype(np.uint8).reshape(-1, 8, 32)  # run, j
    low = sum((stored.reshape(-1, 2, 4, 32)[:, :, a] & 3) << (2 * a) for a in range(4))
    high = sum((stored[:, run] >> 2) << run for run in range(8))
    s = (s + 32).astype(np.uint8)
    tops = sum((s[:, 4 * m : 4 * m + 4] >> 4) << (2 * m) for m in range(4))
    twelve = np.hstack([s[:, :8] & 15 | (s[:, 8:] & 15) << 4, tops])
    data = np.hstack([high, low.reshape(-1, 64), twelve, half.view(np.uint8)])
    return data, (scale * codes.astype(np.float32)).reshape(blocks.shape)


_DOUBLED_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.float32)


def _nearest_e2m1(values):
    """The codes of values over their scales, and the doubled numbers that they stand for."""
    places = np.abs(np.abs(values)[..., None] - _DOUBLED_E2M1).argmin(axis=-1).astype(np.uint8)
    negative = values < 0
    return places | negative.astype(np.uint8) << 3, np.where(negative, -_DOUBLED_E2M1[places], _DOUBLED_E2M1[places])


def _mxfp4(blocks):
    most = np.abs(blocks).max(axis=1, keepdims=True)
    # The largest level is 1.5 · 2^3; a block of zeros has the smallest scale.
    e = np.where(most > 0, np.clip(np.frexp(most)[1] + 124, 2, 252), 0)
    scale = np.ldexp(np.float32(1), e - 128).astype(np.float32)
    codes, numbers = _nearest_e2m1(blocks / scale)
    packed = codes[:, :16] | codes[:, 16:] << 4
    return np.hstack([e.astype(np.uint8), packed]), scale * numbers


def _nvfp4(blocks):
    groups = blocks.reshape(-1, 4, 16)
    e = np.arange(127)
    halves = np.where(e < 8, e * 2.0**-10, (8 + e % 8) * 2.0 ** (e // 8 - 11)).astype(np.float32)
    # The smallest scale over which the largest value is no more than the largest level.
    s = np.minimum(np.searchsorted(halves, np.abs(groups).max(axis=2) / 12), 126).astype(np.uint8)
    scale = halves[s][:, :, None]
    codes, numbers = _nearest_e2m1(groups / np.where(scale == 0, np.float32(1), scale))
    packed = (codes[:, :, :8] | codes[:, :, 8:] << 4).reshape(-1, 32)
    return np.hstack([s, packed]), (scale * numbers).reshape(blocks.shape)


def _q1_0(blocks):
    half, d = _half(np.abs(blocks).mean(axis=1, keepdims=True))
    bits = blocks >= 0
    return np.hstack([half.view(np.uint8), np.packbits(bits, axis=1, bitorder="little")]), np.where(bits, d, -d)


def _q2_0(blocks):
    half, d = _half(_largest(blocks) / 2)
    codes = _codes(blocks + d, d, 3)
    packed = sum(codes[:, a::4] << (2 * a) for a in range(4))
    return np.hstack([half.view(np.uint8), packed]), d * (codes.astype(np.float32) - 1)


def _iq3_s(blocks):
    runs = blocks.reshape(-1, 8, 32)
    step = np.abs(runs).max(axis=2) / 15
    half, d = _half(step.max(axis=1, keepdims=True) / 31)
    s = _codes((step / np.where(d == 0, np.float32(1), d) - 1) / 2, np.float32(1), 15)
    scale = (d * (2 * s.astype(np.float32) + 1))[:, :, None]
    fours = np.abs(runs / np.where(scale == 0, np.float32(1), scale)).reshape(-1, 4)
    points = gguf_grids.grid("kIq3SSet", range(1, 16, 2), 4).astype(np.float32)
    places = ((points**2).sum(axis=1) - 2 * fours @ points.T).argmin(axis=1)
    negative = runs.reshape(-1, 256) < 0
    numbers = np.where(negative, -1, 1) * points[places].reshape(-1, 256)
    places = places.reshape(-1, 64)
    tops = np.packbits(places >> 8, axis=1, bitorder="little")
    signs = np.packbits(negative, axis=1, bitorder="little")
    data = np.hstack([half.view(np.uint8), places.astype(np.uint8), tops, signs, s[:, 0::2] | s[:, 1::2] << 4])
    return data, (scale * numbers.reshape(-1, 8, 32).astype(np.float32)).reshape(blocks.shape)


_IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def _nearest_iq4(values, scale):
    """[..., 16] bytes of 32 values, the first 16 in low nibbles, and the numbers that they stand for."""
    scaled = values / np.where(scale == 0, np.float32(1), scale)
    places = np.searchsorted((_IQ4[1:] + _IQ4[:-1]) / 2, scaled).astype(np.uint8)
    return places[..., :16] | places[..., 16:] << 4, _IQ4[places]


def _iq4_nl(blocks):
    half, d = _half(_largest(blocks) / -127)
    packed, numbers = _nearest_iq4(blocks, d)
    return np.hstack([half.view(np.uint8), packed]), d * numbers


def _iq4_xs(blocks):
    runs = blocks.reshape(-1, 8, 32)
    step = (_largest(runs) / -127)[:, :, 0]
    half, d = _half(np.abs(step).max(axis=1, keepdims=True) / 31)
    s = np.clip(np.rint(step / np.where(d == 0, np.float32(1), d)), -31, 31)
    scale = (d * s.astype(np.float32))[:, :, None]
    packed, numbers = _nearest_iq4(runs, scale)
    s = (s + 32).astype(np.uint16)
    tops = sum((s[:, run : run + 1] >> 4) << (2 * run) for run in range(8)).astype(np.uint16)
    low = (s[:, 0::2] & 15 | (s[:, 1::2] & 15) << 4).astype(np.uint8)
    data = np.hstack([half.view(np.uint8), tops.view(np.uint8), low, packed.reshape(-1, 128)])
    return data, (scale * numbers).reshape(blocks.shape)


def _runs(blocks, most):
    """What Q4_K and Q5_K share: codes [blocks, 8, 32] up to `most`, the bytes of their scales, values."""
    runs = blocks.reshape(-1, 8, 32)
    low = np.minimum(runs.min(axis=2), 0)
    step = (runs.max(axis=2) - low) / most
    half, d = _half(step.max(axis=1, keepdims=True) / 63)
    half_min, dmin = _half(-low.min(axis=1, keepdims=True) / 63)
    s, n = _codes(step, d, 63), _codes(-low, dmin, 63)
    scale = (d * s.astype(np.float32))[:, :, None]
    minimum = (dmin * n.astype(np.float32))[:, :, None]
    codes = _codes(runs + minimum, scale, most)
    twelve = np.hstack(
        [
            s[:, :4] | (s[:, 4:] >> 4) << 6,
            n[:, :4] | (n[:, 4:] >> 4) << 6,
            (s[:, 4:] & 15) | (n[:, 4:] & 15) << 4,
        ]
    )
    scales = np.hstack([half.view(np.uint8), half_min.view(np.uint8), twelve])
    return codes, scales, (scale * codes.astype(np.float32) - minimum).reshape(blocks.shape)


def _nibbles_of_runs(codes):
    return (codes[:, 0::2] & 15 | codes[:, 1::2] << 4).reshape(-1, 128)


def _q4_k(blocks):
    codes, scales, values = _runs(blocks, 15)
    return np.hstack([scales, _nibbles_of_runs(codes)]), values


def _q5_k(blocks):
    codes, scales, values = _runs(blocks, 31)
    tops = sum((codes[:, run] >> 4) << run for run in range(8))
    return np.hstack([scales, tops, _nibbles_of_runs(codes)]), values


def _q6_k(blocks):
    runs = blocks.reshape(-1, 16, 16)
    step = np.abs(runs).max(axis=2) / 31
    half, d = _half(step.max(axis=1, keepdims=True) / 127)
    s = _codes(step, d, 127)
    scale = (d * s.astype(np.float32))[:, :, None]
    safe = np.where(scale == 0, np.float32(1), scale)
    codes = np.clip(np.rint(runs / safe), -32, 31).astype(np.int8)
    stored = (codes + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # half, a, j
    low = stored[:, :, 0:2] & 15 | (stored[:, :, 2:4] & 15) << 4
    high = sum((stored[:, :, a] >> 4) << (2 * a) for a in range(4))
    data = np.hstack([low.reshape(-1, 128), high.reshape(-1, 64), s, half.view(np.uint8)])
    return data, (scale * codes.astype(np.float32)).reshape(blocks.shape)


_ENCODERS = {Q8_0: _q8_0, Q4_0: _q4_0, Q4_1: _q4_1, Q5_0: _q5_0, Q5_1: _q5_1, Q2_K: _q2_k, Q3_K: _q3_k, Q4_K: _q4_k,
             Q5_K: _q5_k, Q6_K: _q6_k, IQ3_S: _iq3_s, IQ4_NL: _iq4_nl, IQ4_XS: _iq4_xs, MXFP4: _mxfp4, NVFP4: _nvfp4,
             Q1_0: _q1_0, Q2_0: _q2_0}


CHOICES = (*NUMBERS, "Q4_K_M")


def _has_more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def type_of(choice, name, layers, shape):
    """The type of a tensor by its name in the file, in a file of one of CHOICES. Q4_K_M is Q4_K, and Q6_K
    where llama.cpp has more bits in it: the embedding, the head, and v and down of half of the layers.
    """
    if choice != "Q4_K_M":
        return fitting(NUMBERS[choice], shape)
    part = name.split(".")
    fine = part[0] in ("token_embd", "output") or (
        part[0] == "blk" and part[2] in ("attn_v", "ffn_down") and _has_more_bits(int(part[1]), layers)
    )
    return fitting(Q6_K if fine else Q4_K, shape)


def fitting(kind, shape):
    """`kind`, or what llama.cpp takes where its blocks do not fit: for vectors F32, for other rows as below."""
    if len(shape) == 1:
        return F32
    if shape[-1] % BLOCK[kind] == 0:
        return kind
    return {Q4_K: Q5_0, Q5_K: Q5_1, Q2_K: IQ4_NL, Q3_K: IQ4_NL, IQ3_S: IQ4_NL, IQ4_XS: IQ4_NL}.get(kind, Q8_0)


def encode(kind, values):
    """(bytes, the float32 values that they stand for) of an array whose rows are whole blocks."""
    values = np.ascontiguousarray(values, np.float32)
    if kind == F32:
        return values.tobytes(), values
    if kind == F16:
        half, back = _half(values)
        return half.tobytes(), back
    if kind == BF16:
        bits = values.view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return rounded.astype(np.uint16).tobytes(), (rounded << 16).astype(np.uint32).view(np.float32)
    data, back = _ENCODERS[kind](values.reshape(-1, BLOCK[kind]))
    return np.ascontiguousarray(data).tobytes(), back.astype(np.float32).reshape(values.shape)
