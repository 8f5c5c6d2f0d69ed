"""Kernels written in Python as candidates of the gate: declare them, gate them. docs/python_candidates.md is the page."""

from .declare import Candidate, Refused, candidate
from .policy import Policy

__all__ = ["Candidate", "Policy", "Refused", "candidate"]
