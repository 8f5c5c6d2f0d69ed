#!/usr/bin/env python3
"""Seconds and memory of `mxcheck quantize`, `dequantize`, `recipes` and `golden` on a matrix of a given size, from and to
files.

usage: tool_sizes.py TOOL [--mib 1024] [--directory /dev/shm] [--runs 3]

The directory should be one of memory (tmpfs), so that a disk's rate is not what is measured. Prints for each command the
seconds of the fastest run, its CPU seconds and the largest resident set. `golden verify` is printed beside SHA-256 alone,
by Python's OpenSSL, of the same golden: what is compared has to be hashed first.
"""

import argparse
import hashlib
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


def hash_alone(path):
    """Bytes and seconds of SHA-256 of a file, in pieces."""
    piece = bytearray(4 << 20)
    sha, seconds, size = hashlib.sha256(), 0.0, 0
    with open(path, "rb") as file:
        while count := file.readinto(piece):
            start = time.monotonic()
            sha.update(memoryview(piece)[:count])
            seconds += time.monotonic() - start
            size += count
    return size, seconds


def measure(name, arguments, runs):
    """Prints a row; the seconds of the fastest run."""
    all_runs = [run(arguments) for _ in range(runs)]
    seconds, cpu, _ = min(all_runs)
    print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {max(r[2] for r in all_runs):.0f} |", flush=True)
    return seconds


def measure_goldens(tool, directory, runs):
    """A golden of x.safetensors, and a candidate that equals it: what is read is the golden and the candidate's outputs."""
    spec, made, mine = (os.path.join(directory, name) for name in ("spec.json", "made", "mine.h5"))
    with open(spec, "w", encoding="ascii") as file:
        json.dump({"suite": "sizes", "goldens": [{
            "name": "x", "kind": "quantize", "input": {"file": "x.safetensors"}, "format": "e4m3", "block": "1x32",
            "recipe": "rceil"}]}, file)
    golden = os.path.join(made, "x.h5")
    measure("golden make, 1x32", [tool, "golden", "make", "--suite", spec, "-o", made], 1)
    run([tool, "quantize", os.path.join(directory, "x.safetensors"), "-o", mine])
    seconds = measure("golden verify", [tool, "golden", "verify", mine, "--against", golden], runs)
    size, hashing = min((hash_alone(golden) for _ in range(runs)), key=lambda pair: pair[1])
    read = size + os.path.getsize(mine)
    print(f"| SHA-256 alone of that golden | {hashing:.2f} | {hashing:.2f} | |\n\ngolden verify: {size / seconds / 1e9:.2f} "
          f"GB/s of the golden, {read / seconds / 1e9:.2f} of all that it reads; SHA-256: {size / hashing / 1e9:.2f} GB/s")


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
            measure(name, arguments, options.runs)
        for name in (q, y):
            os.remove(name)
        measure_goldens(tool, directory, options.runs)


if __name__ == "__main__":
    main()
