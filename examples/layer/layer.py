#!/usr/bin/env python3
"""A layer to run `mxcheck layer` on, and a kernel's dump with a fault in it. Needs numpy: python3-numpy of packages.txt, or pip's.

    layer.py cut goldens/data layer.safetensors       three experts from the committed slices of a model in training
    layer.py swiglu out.safetensors mine.safetensors  H as mxcheck wrote it, and A with SiLU rounded to BF16 before * u
"""
import json
import struct
import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"layer.py: {missing}; this example needs numpy: pip install numpy", file=sys.stderr)
    sys.exit(3)


def load(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], np.uint16).reshape(t["shape"])
            for name, t in header.items() if t["dtype"] == "BF16"}


def save(path, tensors):
    """BF16 tensors, as their bits in uint16."""
    header, data = {}, b""
    for name, bits in tensors.items():
        begin = len(data)
        data += np.ascontiguousarray(bits, np.uint16).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def to_float(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(x):
    """To nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def cut(data, out):
    model, router = load(f"{data}/real_moe.safetensors"), load(f"{data}/real_router.safetensors")
    tensors = {"x": model["layer0.x"], "dO": model["layer0.dO"],
               "router_logits": router["layer0.router_logits"][:192, :3]}
    width, inner = 512, 128
    gate_up = np.tile(model["layer0.w1"], (3, 1))  # rows of one expert's weights, repeated with another beginning
    down = np.tile(model["layer0.w2"], (3, 1))
    for e in range(3):
        tensors[f"experts.{e}.gate_proj.weight"] = gate_up[7 * e:7 * e + inner]
        tensors[f"experts.{e}.up_proj.weight"] = gate_up[7 * e + inner:7 * e + 2 * inner]
        tensors[f"experts.{e}.down_proj.weight"] = down[5 * e:5 * e + inner].T
    save(out, tensors)


def swiglu(source, out):
    h = load(source)["H"]
    gate, up = np.split(to_float(h), 2, axis=1)
    exp = np.exp(-gate.astype(np.float64)).astype(np.float32)
    silu = to_float(to_bf16(gate * (np.float32(1) / (np.float32(1) + exp))))  # the fault: BF16 too early
    save(out, {"H": h, "A": to_bf16(silu * up)})


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("cut", "swiglu"):
        sys.exit(__doc__)
    {"cut": cut, "swiglu": swiglu}[sys.argv[1]](*sys.argv[2:])
