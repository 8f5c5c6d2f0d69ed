"""Candidates for test_gate.py, which the gate's process imports. They ask the reference, so that what is tested is the way to it and
not a kernel: right ones, and those that do what no candidate may."""

import array
import ctypes
import math
import os
import struct
import sys
import time

import mxcheck

OFFERS = dict(recipes=["te"], formats=["e4m3"], blocks=["1x32"], types=["fp32", "bf16"], tensors="bytes")


def by_reference(x, codes, scales, policy):
    q = mxcheck.quantize(mxcheck.Values(x.data, x.shape, x.dtype), policy.format, policy.recipe, policy.block, threads=1)
    codes.data[:] = q.codes.tobytes()
    scales.data[:] = q.scales.tobytes()


def quantizer(function):
    return mxcheck.candidate("quantize", **OFFERS)(function)


@quantizer
def right(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)


@mxcheck.candidate("quantize", options=["col_stride"], **OFFERS)
def right_of_any_strides(x, codes, scales, policy):
    words = x.data.cast("I" if x.dtype == "fp32" else "H")
    (rows, cols), (row, col) = x.shape, x.strides
    x.data = b"".join(words[i * row : i * row + (cols - 1) * col + 1 : col].tobytes() for i in range(rows))
    by_reference(x, codes, scales, policy)


@mxcheck.candidate("quantize", options=["col_stride"], **OFFERS)
def takes_all_for_contiguous(x, codes, scales, policy):
    x.data = x.data[: len(codes.data) * (4 if x.dtype == "fp32" else 2)]
    by_reference(x, codes, scales, policy)


@mxcheck.candidate("dequantize", formats=["e4m3"], blocks=["1x32"], types=["fp32"], tensors="bytes")
def decode(codes, scales, y, policy):
    q = mxcheck.Quantized(mxcheck.Values(codes.data, codes.shape, "e4m3"), mxcheck.Values(scales.data, scales.shape, "e8m0"), "e4m3",
                          "rceil", policy.block, "compact")
    y.data[:] = q.dequantize().tobytes()


both = [right, decode]


@mxcheck.candidate("quantize", options=["offsets"], **OFFERS)
def says_so_later(x, codes, scales, policy, offsets=None):
    if offsets is not None:
        raise NotImplementedError("no experts yet")
    by_reference(x, codes, scales, policy)


@quantizer
def wrong_in_the_last_code(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)
    if x.shape[1] > 40:
        codes.data[-1] ^= 1


@quantizer
def raises(x, codes, scales, policy):
    helper(x)


def helper(x):
    raise ValueError("no kernel for this")


@quantizer
def exits(x, codes, scales, policy):
    sys.exit(3)


@quantizer
def dies(x, codes, scales, policy):
    os.kill(os.getpid(), 11)


@quantizer
def sleeps(x, codes, scales, policy):
    time.sleep(60)


_seen = {}


@quantizer
def sleeps_when_it_compiles(x, codes, scales, policy):
    if "compiled" not in _seen:
        time.sleep(2.5)  # twice the limit that a test gives it, which importing is under too
        _seen["compiled"] = True
    by_reference(x, codes, scales, policy)


@quantizer
def changes_its_input(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)
    if len(x.data):
        x.data[0] = 0


@quantizer
def caches_by_pointer(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)
    key = ctypes.addressof(ctypes.c_char.from_buffer(x.data)), x.shape, x.dtype
    if key in _seen:
        codes.data[:] = _seen[key]
    _seen[key] = bytes(codes.data)


@quantizer
def writes_after_it_has_returned(x, codes, scales, policy):
    last = _seen.get("output")
    if last is not None and len(last):
        last[0] ^= 1
    by_reference(x, codes, scales, policy)
    _seen["output"] = codes.data


@quantizer
def writes_past_its_output(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)
    if len(codes.data):
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(codes.data)) + len(codes.data), 0, 1)


@quantizer
def returns_something(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)
    return codes


@quantizer
def keeps_memory(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)
    _seen.setdefault("kept", []).append(bytearray(4096))


class Config:
    """As triton.Config."""

    def __init__(self, block):
        self.block = block

    def __str__(self):
        return f"BLOCK: {self.block}"


class Autotuner:
    """As triton.Autotuner: picks by time, here by a counter."""

    def __init__(self, fn, configs):
        self.fn, self.configs, self.cache = fn, configs, {}
        self.base_fn = fn

    def run(self, *arguments):
        key = arguments[0].shape
        self.cache.setdefault(key, self.configs[len(self.cache) % len(self.configs)])
        return self.fn(*arguments, block=self.cache[key].block)


def kernel(x, codes, scales, policy, block):
    by_reference(x, codes, scales, policy)
    if block == 64 and len(codes.data) > 64:
        codes.data[64] ^= 1


tuned_kernel = Autotuner(kernel, [Config(32), Config(64), Config(128)])


@quantizer
def tuned(x, codes, scales, policy):
    tuned_kernel.run(x, codes, scales, policy)


def not_declared(x, codes, scales, policy):
    by_reference(x, codes, scales, policy)


def _e4m3(value):
    if value != value:
        return 0x7F
    magnitude, sign = abs(value), 0x80 if math.copysign(1, value) < 0 else 0
    exponent = max(math.frexp(magnitude or 2**-6)[1] - 1, -6)
    if magnitude > 448:
        return sign | 0x7E
    return sign | (exponent + 6) * 8 + round(math.ldexp(magnitude, 3 - exponent))  # ties to even


@mxcheck.candidate("cast", formats=["e4m3"], types=["fp64"], tensors="bytes")
def casts_fp64(x, codes, policy):
    codes.data[:] = bytes(map(_e4m3, x.data.cast("d")))


@mxcheck.candidate("cast", formats=["e4m3"], types=["fp64"], tensors="bytes")
def casts_fp64_by_way_of_fp32(x, codes, policy):
    codes.data[:] = bytes(_e4m3(ctypes.c_float(value).value) for value in x.data.cast("d"))


@mxcheck.candidate("cast", formats=["e4m3"], tensors="bytes")
def casts_any_type(x, codes, policy):
    raise ValueError(x.dtype)


@mxcheck.candidate("cast", formats=["e4m3"], types=["fp32"], tensors="bytes", supports=lambda policy, type_name: 1 // 0)
def cannot_say(x, codes, policy):
    pass


def _refuse_what_is_not_finite(logits):
    for at, value in enumerate(struct.unpack(f"<{len(logits.data) // 4}f", logits.data)):
        if not math.isfinite(value):
            raise mxcheck.Refused(f"logit {at} is {value}")


@mxcheck.candidate("route_balance_loss", types=["fp32"], max_cols=1, tensors="bytes")
def balance_loss_of_one_expert(logits, counts, loss, gradient, policy):
    """One expert has every route and probability 1: the loss is the coefficient, and nothing changes it. -0 - (+0) is -0."""
    _refuse_what_is_not_finite(logits)
    loss.data[:] = struct.pack("<f", policy.scale if policy.rows else 0.0)
    gradient.data[:] = struct.pack("<f", policy.scale if policy.scale == 0 else 0.0) * policy.rows


def _fp32(value):
    """A product of two FP32 numbers, which float has exactly, rounded once."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


@mxcheck.candidate("route_z_loss", types=["fp32"], max_rows=1, max_cols=1, tensors="bytes")
def z_loss_of_one_logit(logits, loss, gradient, policy):
    """Log-sum-exp of one logit is the logit plus 0, and its probability 1."""
    _refuse_what_is_not_finite(logits)
    loss.data[:] = bytes(4)
    if policy.rows == 1:
        x = struct.unpack("<f", logits.data)[0] + 0.0
        loss.data[:] = struct.pack("<f", _fp32(policy.scale * _fp32(x * x)))
        gradient.data[:] = struct.pack("<f", _fp32(_fp32(2 * policy.scale) * x))


losses = [balance_loss_of_one_expert, z_loss_of_one_logit]


def _bf16(words):
    return [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in memoryview(words.data).cast("B").cast("H")]


def _word(value):
    """The BF16 word nearest to a number of FP64, by way of FP32."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    return 0x7FFF if bits & 0x7FFFFFFF > 0x7F800000 else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@mxcheck.candidate("aggregate", contract="any_order", tensors="bytes", max_rows=48, max_cols=80)
def adds_backwards(y, *others):
    """Sums of a token's rows from the last slot to the first, in FP64."""
    o, policy = others[-2:]
    weights = memoryview(others[0].data).cast("B").cast("f") if policy.weighted else None
    offsets, rows = (memoryview(t.data).cast("B").cast(kind) for t, kind in zip(others[-4:-2], "qi"))
    values, out = _bf16(y), memoryview(o.data).cast("B").cast("H")
    for token in range(policy.rows):
        named = [row for row in reversed(rows[offsets[token]:offsets[token + 1]]) if row >= 0]
        for j in range(policy.cols):
            total = 0.0
            for row in named:
                total += values[row * policy.cols + j] * (weights[row] if weights else 1.0)
            out[token * policy.cols + j] = _word(total)


@mxcheck.candidate("aggregate", contract="any_order", tensors="bytes", max_rows=48, max_cols=80)
def writes_twos(y, *others):
    adds_backwards.function(y, *others)
    o, policy = others[-2:]
    if policy.rows > 4:
        memoryview(o.data).cast("B").cast("H")[:policy.cols] = array.array("H", [0x4000] * policy.cols)


def _move_rows(tensors, policy, token_of_scales):
    """Rows to the ranks of their experts; token_of_scales: whose scales the row of a token gets."""
    count = 2 if policy.format else 1
    ends, kinds = tensors[count:count + 4], "qiqi"
    _, homes, token_ends, experts = (memoryview(t.data).cast("B").cast(kind) for t, kind in zip(ends, kinds))
    token_of = [token for token in range(policy.rows) for _ in range(token_ends[token + 1] - token_ends[token])]
    kept = [[] for _ in homes]
    for slot, expert in enumerate(experts):
        if expert >= 0 and (policy.capacity == 0 or len(kept[expert]) < policy.capacity):
            kept[expert].append(slot)
    slots = []
    for expert in sorted(range(policy.experts), key=lambda e: (homes[e], e)):
        slots += kept[expert] + [-1] * (policy.capacity - len(kept[expert]) if policy.capacity else 0)
    outputs = [memoryview(t.data).cast("B") for t in tensors[count + 4:]]
    for i, (source, target) in enumerate(zip((memoryview(t.data).cast("B") for t in tensors[:count]), outputs)):
        line = len(source) // policy.rows if policy.rows else 0
        for row, slot in enumerate(slots if len(target) else ()):
            width = len(target) // len(slots)
            token = -1 if slot < 0 else token_of[slot] if i == 0 else token_of_scales(token_of[slot])
            target[row * width:(row + 1) * width] = bytes(width) if token < 0 else source[token * line:(token + 1) * line]
    row_token, slot_rows = outputs[count].cast("i"), outputs[count + 1].cast("i")
    slot_rows[:] = array.array("i", [-1] * len(slot_rows))
    counts = array.array("q", [0] * (policy.ranks * policy.experts))
    rank_ends = memoryview(ends[0].data).cast("B").cast("q")
    for row, slot in enumerate(slots):
        row_token[row] = -1 if slot < 0 else token_of[slot]
        if slot >= 0:
            slot_rows[slot] = row
            rank = max(r for r in range(policy.ranks) if rank_ends[r] <= token_of[slot])
            counts[rank * policy.experts + experts[slot]] += 1
    outputs[count + 2].cast("q")[:] = counts


@mxcheck.candidate("dispatch", tensors="bytes", options=["capacity"], max_rows=64, max_cols=300)
def moves_rows(*arguments):
    _move_rows(arguments[:-1], arguments[-1], lambda token: token)


@mxcheck.candidate("dispatch", tensors="bytes", max_rows=64, max_cols=300)
def moves_rows_with_other_scales(*arguments):
    policy = arguments[-1]
    _move_rows(arguments[:-1], policy, lambda token: (token + 1) % policy.rows)
