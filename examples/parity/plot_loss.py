#!/usr/bin/env python3
"""Losses of runs of training, with h5py and numpy: plot_loss.py RUN.h5... [-o LOSS.png]

Draws them where matplotlib is installed, and prints a line a run in any case. docs/parity.md has the file.
"""
import sys

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"plot_loss.py: {missing}; this example needs h5py and numpy: pip install h5py numpy", file=sys.stderr)
    sys.exit(3)

out = sys.argv.pop(sys.argv.index("-o") + 1) if "-o" in sys.argv else "loss.png"
paths = [arg for arg in sys.argv[1:] if arg != "-o"]
curves = []
for path in paths or sys.exit(__doc__):
    with h5py.File(path, "r") as run:
        loss = run["loss"][:].view(np.float32)  # FP32, stored as its bits
        at, validation = run["evaluation_step"][:], run["evaluation_loss_bf16"][:].view(np.float32)
    last = f"{loss[-1]:.4f}" if len(loss) else "none"
    print(f"{path}: {len(loss)} steps, last loss {last}, validation " + " ".join(f"{v:.4f}@{s}" for s, v in zip(at, validation)))
    curves.append((path, loss, at, validation))
try:
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit(0)
for path, loss, at, validation in curves:
    line = plt.plot(loss, linewidth=0.5, label=path)
    plt.plot(at, validation, "o-", markersize=3, color=line[0].get_color())
plt.xlabel("step"), plt.ylabel("loss, nats per byte"), plt.legend()
plt.savefig(out, dpi=150)
