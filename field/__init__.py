"""Kernels that nobody here wrote, gated against what they might promise: python3 -m field prints the table (docs/field.md)."""
