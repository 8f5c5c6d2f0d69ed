#!/usr/bin/env python3
"""Elements per second of the CPU library's quantization against ml_dtypes' bfloat16 -> float8_e4m3fn cast.

  ml_dtypes_ratio.py build/release/lib/libmxcheck_cpu.so
  ml_dtypes_ratio.py --elements-per-second 3.4e9     a figure measured elsewhere

One thread each, on the same random values. The cast has no amax, no scales: the library does more. Needs numpy and
ml_dtypes (pip install numpy ml_dtypes); says so and ends with 3 where they are missing, and with 1 below --bar.
"""

import argparse
import ctypes
import sys
import time

ROWS, COLS = 8192, 7168


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Policy(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("layout", ctypes.c_int32), ("format", ctypes.c_char_p),
                ("recipe", ctypes.c_char_p), ("block_rows", ctypes.c_int64), ("block_cols", ctypes.c_int64),
                ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("threads", ctypes.c_int32),
                ("pad_byte", ctypes.c_uint8)]


class Call(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("num_inputs", ctypes.c_int32), ("num_outputs", ctypes.c_int32),
                ("policy", ctypes.POINTER(Policy)), ("inputs", ctypes.POINTER(Tensor)),
                ("outputs", ctypes.POINTER(Tensor)), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_uint64), ("stream", ctypes.c_void_p), ("message", ctypes.c_char_p),
                ("message_bytes", ctypes.c_uint64)]


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Call))


class Operation(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("contract", ctypes.c_char_p), ("max_rows", ctypes.c_int64),
                ("max_cols", ctypes.c_int64), ("rows_multiple", ctypes.c_int64), ("cols_multiple", ctypes.c_int64),
                ("supports", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("run", RUN)]


class Table(ctypes.Structure):
    _fields_ = [("interface_version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("version", ctypes.c_char_p), ("device", ctypes.c_int32), ("num_operations", ctypes.c_int32),
                ("operations", ctypes.POINTER(Operation))]


def tensor(array, code, bits):
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(array.ctypes.data, 1, 0, array.ndim, DataType(code, bits, 1), shape, None, 0)


def quantize_with(path, x, codes, scales):
    """A function that quantizes x once, 1x32 with tiled scales, on one thread."""
    library = ctypes.CDLL(path)
    library.mxcheck_candidate.restype = ctypes.POINTER(Table)
    table = library.mxcheck_candidate().contents
    if table.interface_version != 1:
        sys.exit(f"{path}: interface version {table.interface_version}, must be 1")
    operation = next(o for o in table.operations[:table.num_operations] if o.name == b"quantize")
    policy = Policy(ctypes.sizeof(Policy), 1, b"e4m3", b"rceil", 1, 32, *x.shape, 1, 0)
    inputs = (Tensor * 1)(tensor(x, 4, 16))
    outputs = (Tensor * 2)(tensor(codes, 1, 8), tensor(scales, 1, 8))
    message = ctypes.create_string_buffer(512)
    call = Call(ctypes.sizeof(Call), 1, 2, ctypes.pointer(policy), inputs, outputs, None, 0, None,
                ctypes.cast(message, ctypes.c_char_p), len(message))

    def run():
        if operation.run(ctypes.byref(call)) != 0:
            sys.exit(f"{path}: {message.value.decode()}")

    return run


def best_seconds(work, repetitions=7):
    best = float("inf")
    for _ in range(repetitions):
        start = time.thread_time()  # of this thread alone: what else the machine does is not counted
        work()
        best = min(best, time.thread_time() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", help="libmxcheck_cpu.so")
    parser.add_argument("--elements-per-second", type=float, help="the library's figure, instead of measuring it")
    parser.add_argument("--bar", type=float, default=10, help="the ratio below which to fail (default %(default)s)")
    arguments = parser.parse_args()
    if (arguments.library is None) == (arguments.elements_per_second is None):
        parser.error("give the library or --elements-per-second")
    try:
        import ml_dtypes
        import numpy
    except ImportError as error:
        print(f"{error.name} is not installed: pip install numpy ml_dtypes", file=sys.stderr)
        return 3

    values = numpy.random.default_rng(1).standard_normal((ROWS, COLS), dtype=numpy.float32)
    x = values.astype(ml_dtypes.bfloat16)
    cast = x.size / best_seconds(lambda: x.astype(ml_dtypes.float8_e4m3fn))
    ours = arguments.elements_per_second
    if ours is None:
        codes = numpy.zeros(x.shape, numpy.uint8)
        scales = numpy.zeros(ROWS * COLS // 32, numpy.uint8)
        ours = x.size / best_seconds(quantize_with(arguments.library, x, codes, scales))
    print(f"ml_dtypes {ml_dtypes.__version__} bfloat16 -> float8_e4m3fn  {cast / 1e6:10.1f} M elements/s")
    print(f"quantize 1x32, scales and layout included   {ours / 1e6:10.1f} M elements/s")
    print(f"ratio                                       {ours / cast:10.1f} (bar {arguments.bar:g})")
    return 0 if ours / cast >= arguments.bar else 1


if __name__ == "__main__":
    sys.exit(main())
