"""Configurations of autotuned kernels.

An autotuner picks by time: which configuration a run has, and so which order of a sum, is a matter of chance. The gate runs each of
them by itself. What is looked for are objects with `configs`, a list, and `cache`, a dictionary, as triton.Autotuner has them, among
what a candidate's function reaches: its globals, what it closes over, and the functions and wrappers (`fn`, `function`) of these.
"""

from typing import Any, List, NamedTuple


class Configuration(NamedTuple):
    tuner: Any
    index: int
    text: str


def _is_tuner(x: Any) -> bool:
    return isinstance(getattr(x, "configs", None), list) and isinstance(getattr(x, "cache", None), dict) and not isinstance(x, type)


def _parts(x: Any) -> List[Any]:
    parts = [getattr(x, name, None) for name in ("fn", "function", "__wrapped__", "func")]
    code = getattr(x, "__code__", None)
    if code is not None:
        known = getattr(x, "__globals__", {})
        parts += [known[name] for name in code.co_names if name in known]
    for cell in getattr(x, "__closure__", None) or ():
        try:
            parts.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return [part for part in parts if part is not None]


def tuners_of(function: Any, most: int = 1000) -> List[Any]:
    """The autotuners that a function reaches, each once, in the order in which it names them."""
    found: List[Any] = []
    seen = set()
    waiting = [function]
    while waiting and len(seen) < most:
        x = waiting.pop(0)
        if id(x) in seen or type(x).__module__ == "builtins" and not callable(x):
            continue
        seen.add(id(x))
        if _is_tuner(x):
            found.append(x)
        waiting += _parts(x)
    return found


def _name_of(tuner: Any) -> str:
    inner = getattr(tuner, "base_fn", None) or getattr(tuner, "fn", None)
    return getattr(inner, "__name__", None) or getattr(tuner, "__name__", None) or type(tuner).__name__


def configurations(function: Any) -> List[Configuration]:
    """Each configuration of each autotuner; of the others the first is taken meanwhile."""
    return [Configuration(tuner, i, f"{_name_of(tuner)} [{config}]")
            for tuner in tuners_of(function) for i, config in enumerate(tuner.configs)]


def choose(function: Any, number: int) -> str:
    """Leaves that configuration alone, and the first of each other autotuner; its text."""
    chosen = configurations(function)[number]
    for tuner in tuners_of(function):
        tuner.configs = [tuner.configs[chosen.index if tuner is chosen.tuner else 0]]
        tuner.cache.clear()
    return chosen.text
