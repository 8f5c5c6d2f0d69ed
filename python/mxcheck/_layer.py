"""A mixture-of-experts layer, forward and backward, under a recipe: `mxcheck layer` of the command line (docs/layer.md)."""

import inspect
import json
import os
import tempfile
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _safetensors
from ._arrays import Values, view_of
from ._errors import InputError, UsageError
from ._formats import formats
from ._names import format_name, listed, near, number, require_options, told, whole, word
from ._quantize import _thread_count
from ._router import RoundedTokens, Routes
from ._tool import run_tool

Recipe = Union[str, "os.PathLike[str]", Mapping[str, Any]]
_ROUTES = ("offsets", "row_token", "row_weight", "token_offsets", "token_rows", "experts", "weights")
_OF_EXPERT = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, repr=False)
class LayerRun(MappingABC):  # type: ignore[type-arg]
    """Every tensor of a layer's run by its name, in the order of the steps; a Mapping.

    formats: what the bits of each are ("bfloat16", "float8_e4m3fn", "int32" ...); steps: where each is made ("up", "swiglu" ...); metadata: the
    recipe in full, the router, sizes, as text.
    """

    tensors: Dict[str, Any]
    formats: Dict[str, str]
    steps: Dict[str, str]
    metadata: Dict[str, str] = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        return f"LayerRun({len(self)} tensors: {listed(self, 12)})"


@dataclass(frozen=True)
class LayerTensorVerdict:
    """One tensor of a dump.

    verdict: "equal"; "differs", a fault of its own step; "follows", what the dump's own earlier tensors give; "form", of another type or shape;
    "missing". causes: what would give exactly these elements; made_of: what its own step reads; differing of so many elements, first with row,
    col, reference and dump.
    """

    name: str
    step: str
    verdict: str
    format: str
    shape: Tuple[int, ...]
    note: str = ""
    made_of: str = ""
    causes: Tuple[str, ...] = ()
    differing: int = 0
    elements: int = 0
    first: Dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.verdict == "equal"


@dataclass(frozen=True, repr=False)
class LayerVerdict:
    """A dump against the reference's layer. True as a truth value where all that the dump has is equal, bit for bit."""

    equal: bool
    tensors: Tuple[LayerTensorVerdict, ...]
    others: Tuple[str, ...]  # of the dump that are none of the layer's

    def __bool__(self) -> bool:
        return self.equal

    def __getitem__(self, name: str) -> LayerTensorVerdict:
        for one in self.tensors:
            if one.name == name:
                return one
        raise KeyError(f"{name}{near(name, [one.name for one in self.tensors])}")

    def __repr__(self) -> str:
        first = self.first
        found = f"{first.name} of step {first.step} {first.verdict}: {listed(first.causes) or first.note or 'no cause known'}" if first else "equal"
        return f"LayerVerdict({found})"

    @property
    def first(self) -> Optional[LayerTensorVerdict]:
        """Where the dump first differs."""
        return next((one for one in self.tensors if one.verdict not in ("equal", "missing")), None)

    def text(self) -> str:
        """A line a tensor that the dump has; of what differs by itself the causes and the first element."""
        lines = []
        for one in self.tensors:
            if one.verdict == "missing":
                continue
            lines.append(f"{one.verdict:<8} {one.step:<16} {one.name:<16} {one.format:<16} {' x '.join(map(str, one.shape))}")
            if one.verdict in ("equal", "follows"):
                continue
            lines += [f"  note      {one.note}"] if one.note else []
            lines += [f"  cause     {cause}" for cause in one.causes]
            if one.differing:
                lines += [f"  extent    {one.differing} of {one.elements} elements differ, first at ({one.first['row']}, {one.first['col']})",
                          f"  reference {one.first['reference']}", f"  dump      {one.first['dump']}"]
        return "\n".join(lines)

    __str__ = text


def layer_recipes() -> List[str]:
    """Names of the recipes of layers that come with mxcheck."""
    _, out = run_tool(["layer", "--list", "--json"])
    return [one["name"] for one in json.loads(out)]


def layer_recipe(recipe: Recipe) -> Dict[str, Any]:
    """A recipe in full as a dict: operands, blocks, scales and contracts of six GEMMs, and what is kept.

    recipe: a name of layer_recipes(), the path of a FILE.json, or a dict, whole or what differs from its "base" (docs/layer.md). UsageError
    for one that cannot be, with the place.
    """
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as folder:
        _, out = run_tool(["layer", "--recipe", _recipe_in(recipe, Path(folder)), "--show", "--json"], refused=UsageError, hide=folder)
    return dict(json.loads(out))


def _recipe_in(recipe: Recipe, folder: Path) -> str:
    if isinstance(recipe, Mapping):
        try:
            text = json.dumps(dict(recipe), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"recipe is no JSON: {error}") from None
        (folder / "recipe.json").write_text(text)
        return str(folder / "recipe.json")
    try:
        name = os.fspath(recipe)
    except TypeError:
        raise UsageError(f"recipe is {told(recipe)}: a name, a path of a .json or a dict is needed") from None
    if not isinstance(name, str) or not name or "\0" in name or name.startswith("-"):
        raise UsageError(f"recipe is {told(name)}: a name, a path of a .json or a dict is needed")
    return name


def _weights(tensors: Mapping[str, Any], experts: Optional[str], names: Mapping[str, str]) -> Dict[str, Any]:
    """W1 and W2, or the three tensors of every expert, by the names that the program is told."""
    if experts is None:
        return {"W1": _taken(tensors, names["W1"], "w1"), "W2": _taken(tensors, names["W2"], "w2")}
    if not isinstance(experts, str) or "{}" not in experts:
        raise UsageError(f"experts is {told(experts)}: a name with {{}} for an expert's number is needed, as 'layers.0.experts.{{}}'")
    found: Dict[str, Any] = {}
    for e in range(len(tensors)):
        patterns = {part: (names[part] or f"{experts}.{part}.weight").replace("{}", str(e)) for part in _OF_EXPERT}
        there = [name for name in patterns.values() if name in tensors]
        if not there:
            break
        found.update({f"experts.{e}.{part}.weight": _taken(tensors, name, "experts") for part, name in patterns.items()})
    if not found:
        raise UsageError(f"experts is {experts!r}: there is no tensor {experts.replace('{}', '0')}.gate_proj.weight; there are {listed(tensors) or 'none'}")
    return found


def _taken(tensors: Mapping[str, Any], name: Any, option: str) -> Any:
    if name not in tensors:
        raise UsageError(f"{option}: there is no tensor {told(name)}; there are {listed(tensors) or 'none'}{near(name, map(str, tensors))}")
    return tensors[name]


def _routes_of(routes: Any, experts: int) -> Dict[str, Any]:
    """The tensors of a file of mxcheck route."""
    if isinstance(routes, RoundedTokens):
        return {name: getattr(routes, name) for name in _ROUTES[:5]}
    if isinstance(routes, Routes):
        # The program makes rows of experts and weights; of the two lists it then takes the lengths alone.
        tokens = int(routes.experts.shape[0])
        return {"experts": routes.experts, "weights": routes.weights, "offsets": Values(bytes(8 * (experts + 1)), (experts + 1,), "int64"),
                "token_offsets": Values(bytes(8 * (tokens + 1)), (tokens + 1,), "int64")}
    if isinstance(routes, Mapping):
        unknown = [name for name in routes if name not in _ROUTES]
        if unknown:
            raise UsageError(f"routes has {told(unknown[0])}: {', '.join(_ROUTES[:5])}, or experts and weights are known{near(unknown[0], _ROUTES)}")
        return dict(routes)
    raise UsageError(f"routes is {told(routes)}: what mxcheck.round_tokens or mxcheck.route returned, or tensors by name are needed")


def _router_flags(top_k: Optional[int], variant: str, groups: int, groups_kept: int, nan: str, scale: float, rule: str, tile: int,
                  capacity: Optional[int], renormalize: Optional[bool], seed: int, step: int, layer: int) -> List[str]:
    flags = ["--variant", _word(variant, "variant"), "--nan", _word(nan, "nan"), "--scale", repr(_float(scale)), "--round", _word(rule, "rule")]
    for name, value in (("--top-k", top_k), ("--groups", groups or None), ("--groups-kept", groups_kept or None), ("--tile", tile),
                        ("--capacity", capacity), ("--seed", seed or None), ("--step", step or None), ("--layer", layer or None)):
        if value is not None:
            flags += [name, str(whole(value, name[2:].replace("-", "_")))]
    if renormalize is not None:
        flags += ["--weights", "renorm" if renormalize else "raw"]
    return flags


def _word(value: Any, name: str) -> str:
    if word(value, name).startswith("-"):
        raise UsageError(f"{name} is {value!r}: no name begins with -")
    return str(value)


def _float(value: Any) -> float:
    """The scale as it was written, of which FP32's is the program's to make."""
    number(value, "scale")
    return float(value)


def _made_ready(folder: Path, tensors: Mapping[str, Any], recipe: Recipe, logits: Any, routes: Any, top_k: Optional[int] = None,
                backward: Optional[bool] = None, x: str = "X", d_o: str = "dO", w1: str = "W1", w2: str = "W2", experts: Optional[str] = None,
                gate_proj: Optional[str] = None, up_proj: Optional[str] = None, down_proj: Optional[str] = None, w1_layout: str = "d-2n",
                w2_layout: str = "n-d", gate_up: str = "halves", dtype: Optional[str] = None, only: Optional[Sequence[str]] = None,
                bias: Any = None, threads: int = 0, variant: str = "topk-softmax", groups: int = 0, groups_kept: int = 0, nan: str = "refuse",
                scale: float = 1.0, rule: str = "none", tile: int = 128, capacity: Optional[int] = None, renormalize: Optional[bool] = None,
                seed: int = 0, step: int = 0, layer: int = 0, random: Optional[Sequence[int]] = None) -> List[str]:
    """Files in the folder, and the command line that reads them. Names in the files are the layer's own, whatever the caller's are."""
    if not isinstance(tensors, Mapping):
        raise UsageError(f"tensors is {told(tensors)}: tensors by name are needed, as {{'X': x, 'W1': w1, 'W2': w2}}")
    names = {"W1": w1, "W2": w2, "gate_proj": gate_proj or "", "up_proj": up_proj or "", "down_proj": down_proj or ""}
    found = {"X": _taken(tensors, x, "x"), **_weights(tensors, experts, names)}
    arguments = ["layer", str(folder / "layer.safetensors"), "--recipe", _recipe_in(recipe, folder), "--json", "--threads",
                 str(_thread_count(threads))]
    if backward is None:
        backward = d_o in tensors
    if backward:
        found["dO"] = _taken(tensors, d_o, "d_o")
        arguments += ["--backward", "--d-o", "dO"]
    dtype = None if dtype is None else format_name(dtype, "dtype")
    for flag, value in (("--w1-layout", w1_layout), ("--w2-layout", w2_layout), ("--gate-up", gate_up), ("--dtype", dtype)):
        if value is not None:
            arguments += [flag, _word(value, flag[2:].replace("-", "_"))]
    if random is not None:
        parts = list(random) if isinstance(random, (list, tuple)) else []
        if len(parts) != 3:
            raise UsageError(f"random is {told(random)}: (seed, step, layer) is needed")
        for name, value in zip(("seed", "step", "layer"), parts):
            arguments += [f"--random-{name}", str(whole(value, f"random's {name}", 0))]
    if experts is not None:
        arguments += ["--experts", "experts.{}"]
    if only is not None:
        asked = [only] if isinstance(only, str) else list(only) if isinstance(only, (list, tuple)) else []
        if not asked or any(not isinstance(name, str) or not name.isidentifier() for name in asked):
            raise UsageError(f"only is {told(only)}: names of the layer's tensors are needed")
        arguments += ["--only", ",".join(asked)]
    logits = logits if logits is not None or routes is not None else tensors.get("logits")
    if (logits is None) == (routes is None):
        raise UsageError("one of logits (or a tensor 'logits') and routes is needed: where each token's rows come from")
    if logits is not None:
        found["logits"] = logits
        arguments += ["--logits", "logits", *_router_flags(top_k, variant, groups, groups_kept, nan, scale, rule, tile, capacity, renormalize, seed,
                                                           step, layer)]
        if bias is not None:
            _safetensors.write(folder / "bias.safetensors", {"bias": bias})
            arguments += ["--bias", f"{folder / 'bias.safetensors'}:bias"]
    else:
        if top_k is not None or bias is not None:
            raise UsageError("top_k and bias are of logits: routes have theirs")
        count = sum(name.endswith("gate_proj.weight") for name in found) if experts is not None else view_of(found["W1"], "W1", codes=True).shape[0]
        _safetensors.write(folder / "routes.safetensors", _routes_of(routes, count))
        arguments += ["--routes", str(folder / "routes.safetensors")]
    _safetensors.write(folder / "layer.safetensors", found)
    return arguments


def layer(tensors: Mapping[str, Any], recipe: Recipe, logits: Any = None, top_k: Optional[int] = None, *, routes: Any = None,
          backward: Optional[bool] = None, only: Optional[Sequence[str]] = None, timeout: Optional[float] = None, **options: Any) -> LayerRun:
    """A mixture-of-experts layer by the reference, every tensor of it to the bit; of X's kind.

    tensors, BF16: "X" tokens x d, "W1" experts x d x 2n, "W2" experts x n x d, and "dO" tokens x d for the backward pass (backward: None where
    it is there). recipe: a name of layer_recipes(), a dict, or the path of a .json. Rows come from logits (tokens x experts, BF16, FP32 or FP16,
    or tensors["logits"]) with top_k, or from routes: what mxcheck.round_tokens or mxcheck.route returned, or its tensors by name. only: names of
    the tensors that are wanted.

    options: x, d_o, w1, w2: names in `tensors` other than those; experts="layers.0.experts.{}" for gate_proj.weight, up_proj.weight [n, d] and
    down_proj.weight [d, n] of every expert in place of W1 and W2 (by other names with gate_proj, up_proj, down_proj); w1_layout "d-2n" or
    "2n-d", w2_layout "n-d" or "d-n"; gate_up "halves" or "interleaved"; dtype="bf16" takes uint16 as its bits; of logits variant, bias, groups,
    groups_kept, nan, scale, rule, tile, capacity, renormalize, seed, step, layer, as of mxcheck.route and mxcheck.round_tokens; random=(seed,
    step, layer), the words of a recipe that rounds stochastically; threads.

    UsageError for arguments and a recipe that cannot be, InputError for tensors of other types and shapes and a NaN in logits that is refused.
    """
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as temporary:
        folder = Path(temporary)
        arguments = _ready(folder, tensors, recipe, logits, routes, top_k=top_k, backward=backward, only=only, **options)
        kind = view_of(tensors[options.get("x", "X")], "X", codes=True).kind
        _, out = run_tool([*arguments, "-o", str(folder / "out.safetensors")], refused=InputError, timeout=timeout, hide=temporary)
        read, metadata = _safetensors.read(folder / "out.safetensors")
    rows = json.loads(out)["tensors"]
    made = {}
    for row in rows:
        name = row["tensor"]
        codes = read[name].dtype in ("uint8", "uint16")
        made[name] = _safetensors.as_kind(read[name], kind, _own_name(row["format"]) if codes else "")
    return LayerRun(made, {row["tensor"]: row["format"] for row in rows}, {row["tensor"]: row["step"] for row in rows}, metadata)


def _own_name(dtype: str) -> str:
    return formats(dtype).name


def _ready(folder: Path, *arguments: Any, **options: Any) -> List[str]:
    require_options(options, list(inspect.signature(_made_ready).parameters)[1:], "layer")
    return _made_ready(folder, *arguments, **options)


def verify_layer(tensors: Mapping[str, Any], dump: Mapping[str, Any], recipe: Recipe, logits: Any = None, top_k: Optional[int] = None, *,
                 routes: Any = None, backward: Optional[bool] = None, only: Optional[Sequence[str]] = None, timeout: Optional[float] = None,
                 **options: Any) -> LayerVerdict:
    """Finds the step of your layer that first differs from the reference's, and what would give its bits: `mxcheck layer --against`.

    dump: your tensors by the layer's names (docs/layer.md), as many of them as you have. All else as of mxcheck.layer. InputError for a dump
    that has none of the layer's tensors.
    """
    if not isinstance(dump, Mapping) or not dump:
        raise UsageError("dump has no tensors: those of the layer are needed, by name")
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as temporary:
        folder = Path(temporary)
        arguments = _ready(folder, tensors, recipe, logits, routes, top_k=top_k, backward=backward, only=only, **options)
        _safetensors.write(folder / "dump.safetensors", dump)
        _, out = run_tool([*arguments, "--against", str(folder / "dump.safetensors")], (0, 1), InputError, timeout, temporary)
    document = json.loads(out)
    results = tuple(LayerTensorVerdict(row["tensor"], row["step"], row["verdict"], row["format"], tuple(row["shape"]), row["note"], row["made_of"],
                                       tuple(row["causes"]), row.get("differing", 0), row.get("elements", 0), row.get("first", {}))
                    for row in document["tensors"])
    return LayerVerdict(document["equal"], results, tuple(document["not_of_the_layer"]))
