"""The answer of identify."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from .._errors import UsageError
from .._names import listed
from ._tree import Tree


@dataclass
class Candidate:
    """A name that was tried: how many of the compared outputs it has, and the first that it has not, in words."""

    name: str
    equal: int
    first: str = ""


@dataclass(repr=False)
class Identified:
    """The answer. names: what explains every compared output; several cannot be told apart by them. closest: the best of the others
    that were tried. tree: the order of a sum that has no name, where there is one."""

    names: List[str]
    compared: int
    closest: List[Candidate] = field(default_factory=list)
    tree: Optional[Tree] = None
    notes: List[str] = field(default_factory=list)
    scales: Optional["Identified"] = None  # of a quantization that no recipe explains: its scales alone
    elements: Optional["Identified"] = None  # and how elements are rounded under these

    def __bool__(self) -> bool:
        return bool(self.names)

    def __repr__(self) -> str:
        found = f"{listed(self.names, 3)}: all {self.compared} outputs" if self.names else str(self).splitlines()[0]
        return f"Identified({found})"

    def __str__(self) -> str:
        if self.names:
            lines = [f"{' = '.join(self.names)}: all {self.compared} outputs"]
            if len(self.names) > 1:
                lines.append("these cannot be told apart by the outputs that were compared")
        else:
            lines = [f"nothing known explains all {self.compared} outputs"]
        for one in self.closest:
            lines.append(f"not {one.name}: {one.equal} of {self.compared} outputs; {one.first}")
        for part, what in ((self.scales, "its scales alone:"), (self.elements, "its elements under its own scales:")):
            lines += [] if part is None else [what, *("  " + line for line in str(part).splitlines())]
        return "\n".join(lines + self.notes + ([str(self.tree)] if self.tree is not None else []))

    def json(self) -> Dict[str, Any]:
        """The answer in the form of `mxcheck identify --json`, as far as both know it."""
        closest = [{"name": one.name, "equal": one.equal, "first": {"text": one.first}} for one in self.closest]
        return {"explained": bool(self), "explaining": self.names, "also": self.notes, "declared": None, "closest": closest,
                "compared": self.compared, "order": None if self.tree is None else self.tree.json(),
                "scales": None if self.scales is None else self.scales.json(), "elements": None if self.elements is None else self.elements.json()}

    def svg(self) -> str:
        """The tree of summation as a picture. UsageError where none was found."""
        if self.tree is None:
            raise UsageError("there is no tree to draw: a name explains every output, or no order was looked for")
        return self.tree.svg()


def identified(answer: Dict[str, Any], observed: str, has_probes: bool = True) -> Identified:
    """The program's JSON. observed: what it was about; has_probes: whether the names of probes say anything."""
    closest = []
    for one in answer["closest"] if not answer["explained"] else ():
        first = one["first"]
        probe = f" of {first['probe']}" if has_probes else ""
        closest.append(Candidate(one["name"], one["equal"], f"first in {first['part']} at ({first['row']}, {first['column']}){probe}: "
                                 f"{one['name']} gives {first['expected_text']}, {observed} {first['observed_text']}"))
    order = answer.get("order")
    notes = [words if " but for " in words else f"that is also {words}" for words in answer["also"]]
    notes += [f"a slip gives every bit: {slip}" for slip in answer.get("slips", ())] + answer.get("remarks", [])
    parts = [identified(answer[part], observed, has_probes) if answer.get(part) else None for part in ("scales", "elements")]
    return Identified(answer["explaining"], answer["compared"], closest, None if order is None else Tree.of(order), notes, *parts)
