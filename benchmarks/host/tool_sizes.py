#!/usr/bin/env python3
"""Seconds and memory of `mxcheck quantize`, `dequantize` and `recipes` on a matrix of a given size, from and to files.

usage: tool_sizes.py TOOL [--mib 1024] [--directory /dev/shm] [--runs 3]

The directory should be one of memory (tmpfs), so that a disk's rate is not what is measured. Prints for each command the
seconds of the fastest run, its CPU seconds and the largest resident set.
"""

import argparse
import json
import os
import random
import struct
import sys
import tempfile
import time

COLS = 8192


def write_matrix(path, mib):
    """Normal BF16 values, 2^20 of them repeated at other phases."""
    random.seed(1)
    words = [struct.unpack("<I", struct.pack("<f", random.gauss(0, 1)))[0] for _ in range(1 << 20)]
    piece = b"".join(struct.pack("<H", (word + 0x8000) >> 16 & 0xFFFF) for word in words)
    rows = mib * (1 << 20) // (2 * COLS)
    header = json.dumps({"x": {"dtype": "BF16", "shape": [rows, COLS], "data_offsets": [0, rows * COLS * 2]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        left, phase = rows * COLS * 2, 0
        while left > 0:
            phase = (phase + 2 * 7919) % len(piece)
            part = (piece[phase:] + piece[:phase])[:left]
            file.write(part)
            left -= len(part)


def run(arguments):
    """Seconds, CPU seconds and MB of one run; ends the script if it fails."""
    start = time.monotonic()
    child = os.posix_spawn(arguments[0], arguments, os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit("failed: " + " ".join(arguments))
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    tool = os.path.abspath(options.tool)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        x, q, y = (os.path.join(directory, name) for name in ("x.safetensors", "q.safetensors", "y.npy"))
        writer = os.fork()  # a child's largest resident set begins with its parent's, which must stay small
        if writer == 0:
            write_matrix(x, options.mib)
            os._exit(0)
        os.waitpid(writer, 0)
        print(f"| {options.mib} MiB of BF16 | seconds | CPU seconds | MB |\n|---|---|---|---|")
        for name, arguments in (
                ("quantize, 1x32, tcgen05", [tool, "quantize", x, "-o", q, "--layout", "tcgen05"]),
                ("dequantize to BF16", [tool, "dequantize", q, "-o", y, "--dtype", "bf16"]),
                ("dequantize to FP32", [tool, "dequantize", q, "-o", y]),
                ("recipes rceil, floor, even", [tool, "recipes", x, "--format", "e4m3", "--recipe", "rceil,floor,even"]),
                ("recipes rceil, fp32, dsv3", [tool, "recipes", x, "--format", "e4m3", "--recipe", "rceil,fp32,dsv3"])):
            runs = [run(arguments) for _ in range(options.runs)]
            seconds, cpu, _ = min(runs)
            print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {max(r[2] for r in runs):.0f} |")


if __name__ == "__main__":
    main()
