"""Kernels that nobody here wrote, gated against what they might promise: python3 -m field prints the table (docs/field.md)."""

import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # several kernels are tried side by side
# Where the kernels run: "cuda", or "cpu" for what runs there, to try the table without a GPU.
DEVICE = os.environ.get("FIELD_DEVICE", "cuda")
ON = dict(device=DEVICE, tensors="torch", captures=False, waits=True)
