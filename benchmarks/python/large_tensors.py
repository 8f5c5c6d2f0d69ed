"""mxcheck.quantize and mxcheck.dequantize of 1 GiB of BF16, in bytes read plus written per second:

    python3 benchmarks/python/large_tensors.py            # after ./run build mxcheck_c; 6 GiB of memory, MiB as argument for less

Beside each stands the SIMD library alone (libmxcheck_cpu.so, called as the gate calls it, into memory that was written before), and memcpy.
Medians of 9, taken in turns, since a machine's rate changes by the second. What Python has on top is the outputs' memory, which is new with each call, and the reference's sample.
"""

import ctypes
import statistics
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import mxcheck  # noqa: E402
from mxcheck._arrays import new_buffer  # noqa: E402

COLS = 8192
RUNS = 9


def values_of(rows):
    """BF16 words near 1, of both signs: a row, over and over, each turned by one word."""
    row = bytearray()
    state = 1
    for _ in range(COLS):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        row += ((state >> 63) << 15 | 112 + (state >> 40) % 24 << 7 | (state >> 20) % 128).to_bytes(2, "little")
    buffer, _ = new_buffer(rows * COLS * 2)
    for i in range(rows):
        at = i % COLS * 2
        buffer[i * COLS * 2 : (i + 1) * COLS * 2] = row[at:] + row[:at]
    return mxcheck.Values(buffer, (rows, COLS), "bf16")


def medians_of(calls):
    """Seconds of each call by its name."""
    times = {name: [] for name in calls}
    for turn in range(RUNS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


class Policy(ctypes.Structure):
    """mxcheck_policy of kernels/candidate.h."""

    _fields_ = [("size", ctypes.c_uint32), ("layout", ctypes.c_int32), ("format", ctypes.c_char_p), ("recipe", ctypes.c_char_p),
                ("block_rows", ctypes.c_int64), ("block_cols", ctypes.c_int64), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64),
                ("threads", ctypes.c_int32), ("pad_byte", ctypes.c_uint8)]


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


class Call(ctypes.Structure):
    """mxcheck_call."""

    _fields_ = [("size", ctypes.c_uint32), ("num_inputs", ctypes.c_int32), ("num_outputs", ctypes.c_int32), ("policy", ctypes.POINTER(Policy)),
                ("inputs", ctypes.c_void_p), ("outputs", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_uint64),
                ("stream", ctypes.c_void_p), ("message", ctypes.c_char_p), ("message_bytes", ctypes.c_uint64), ("report", ctypes.c_void_p)]


class Operation(ctypes.Structure):
    """mxcheck_operation."""

    _fields_ = [("name", ctypes.c_char_p), ("contract", ctypes.c_char_p), ("limits", ctypes.c_int64 * 4), ("supports", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("run", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Call)))]


class Table(ctypes.Structure):
    """mxcheck_candidate_table."""

    _fields_ = [("interface_version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("name", ctypes.c_char_p), ("version", ctypes.c_char_p),
                ("device", ctypes.c_int32), ("num_operations", ctypes.c_int32), ("operations", ctypes.POINTER(Operation))]


def operation(name):
    library = ctypes.CDLL(str(ROOT / "build" / "release" / "lib" / "libmxcheck_cpu.so"))
    library.mxcheck_candidate.restype = ctypes.POINTER(Table)
    table = library.mxcheck_candidate().contents
    return next(table.operations[i] for i in range(table.num_operations) if table.operations[i].name == name)


def alone(name, tensors, inputs, rows):
    """A call of the library on tensors of (address, code, bits, shape), of which so many are inputs."""
    run = operation(name).run
    policy = Policy(ctypes.sizeof(Policy), 0, b"e4m3", b"rceil", 1, 32, rows, COLS, 0, 0)
    made = (Tensor * len(tensors))(*(Tensor(at, (ctypes.c_int32 * 2)(1, 0), len(shape), code, bits, 1, (ctypes.c_int64 * 2)(*shape), None, 0)
                                     for at, code, bits, shape in tensors))
    message = ctypes.create_string_buffer(256)
    step = ctypes.sizeof(Tensor)
    call = Call(ctypes.sizeof(Call), inputs, len(tensors) - inputs, ctypes.pointer(policy), ctypes.addressof(made),
                ctypes.addressof(made) + inputs * step, None, 0, None, ctypes.addressof(message), 256, None)

    def once(keeps=(made, policy, message)):  # the call has their addresses alone
        del keeps
        if run(ctypes.byref(call)) != 0:
            raise SystemExit(message.value.decode())

    return once


def copied(target, source, count):
    half = count // 2
    other = threading.Thread(target=ctypes.memmove, args=(target + half, source + half, count - half))
    other.start()
    ctypes.memmove(target, source, half)
    other.join()


def show(calls, moved):
    """The first is what the others are compared with."""
    seconds = medians_of(calls)
    first = next(iter(seconds.values()))
    for name, each in seconds.items():
        print(f"{name:<48}{each * 1000:9.1f} ms{moved / each / 1e9:8.1f} GB/s{first / each:8.2f}", flush=True)


def main():
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    rows = mib * 2**20 // (2 * COLS)
    x = values_of(rows)
    x_at = ctypes.addressof(ctypes.c_char.from_buffer(x.data))
    count = rows * COLS
    codes, codes_at = new_buffer(count)
    scales, scales_at = new_buffer(count // 32)
    values, values_at = new_buffer(2 * count)
    moved = count * 2 + count + count // 32
    tensors = [(x_at, 4, 16, (rows, COLS)), (codes_at, 1, 8, (rows, COLS)), (scales_at, 1, 8, (rows, COLS // 32))]
    q, tiled = mxcheck.quantize(x), mxcheck.quantize(x, layout="tcgen05")
    show({"libmxcheck_cpu.so: quantize": alone(b"quantize", tensors, 1, rows),
          "mxcheck.quantize, out=": lambda: mxcheck.quantize(x, out=q),
          "mxcheck.quantize, out=, layout tcgen05": lambda: mxcheck.quantize(x, layout="tcgen05", out=tiled),
          "mxcheck.quantize": lambda: mxcheck.quantize(x),
          "memcpy of as many bytes": lambda: copied(values_at, x_at, moved // 2)}, moved)
    if (q.codes.data, q.scales.data) != (codes, scales):
        raise SystemExit("mxcheck.quantize and the library differ")
    y = mxcheck.dequantize(q, "bf16")
    back = tensors[1:] + [(values_at, 4, 16, (rows, COLS))]
    show({"libmxcheck_cpu.so: dequantize to BF16": alone(b"dequantize", back, 2, rows),
          "mxcheck.dequantize to BF16, out=": lambda: mxcheck.dequantize(q, "bf16", out=y),
          "mxcheck.dequantize to BF16": lambda: mxcheck.dequantize(q, "bf16")}, moved)
    part = mxcheck.Values(x.data[: len(x.data) // 16], (rows // 16, COLS), "bf16")
    show({"the reference: quantize, of a sixteenth": lambda: mxcheck.quantize(part, engine="reference")}, moved // 16)


if __name__ == "__main__":
    main()
