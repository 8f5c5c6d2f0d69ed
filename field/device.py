"""Where the table's kernels run: FIELD_DEVICE, "cuda" unless it says "cpu" (for what runs there, to try the table without a GPU)."""

import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # several kernels are tried side by side
DEVICE = os.environ.get("FIELD_DEVICE", "cuda")
ON = dict(device=DEVICE, tensors="torch", captures=False, waits=True)
