raise RuntimeError("no driver for this")
