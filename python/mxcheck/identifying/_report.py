"""What identify found."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from .._errors import UsageError


@dataclass
class Candidate:
    """A name that was tried: how many of the compared outputs it has, and the first that it has not, in words."""

    name: str
    equal: int
    first: str = ""


@dataclass
class Identified:
    """The answer. names: what explains every compared output; several cannot be told apart by them. closest: the best of the others
    that were tried. tree: the order of a sum that has no name, where there is one."""

    names: List[str]
    compared: int
    closest: List[Candidate] = field(default_factory=list)
    tree: Optional[Any] = None
    notes: List[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.names)

    def __str__(self) -> str:
        if self.names:
            lines = [f"{' = '.join(self.names)}: all {self.compared} outputs"]
            if len(self.names) > 1:
                lines.append("these cannot be told apart by the outputs that were compared")
        else:
            lines = [f"nothing known explains all {self.compared} outputs"]
        for one in self.closest:
            lines.append(f"not {one.name}: {one.equal} of {self.compared} outputs; {one.first}")
        return "\n".join(lines + self.notes + ([str(self.tree)] if self.tree is not None else []))

    def json(self) -> Dict[str, Any]:
        """As `mxcheck identify --json`, as far as both know it."""
        closest = [{"name": one.name, "equal": one.equal, "first": {"text": one.first}} for one in self.closest]
        return {"explained": bool(self), "explaining": self.names, "also": self.notes, "declared": None, "closest": closest,
                "compared": self.compared, "order": None if self.tree is None else self.tree.json()}

    def svg(self) -> str:
        """The tree of summation as a picture. UsageError where none was found."""
        if self.tree is None:
            raise UsageError("there is no tree to draw: a name explains every output, or no order was looked for")
        return self.tree.svg()


def compare(name: str, expected: bytes, observed: bytes, each: int, tell: Any) -> Candidate:
    """Elements of `each` bytes; tell(index, expected, observed) says in words what is at the first that differs."""
    if expected == observed:
        return Candidate(name, len(observed) // each)
    equal, first = 0, ""
    for at in range(0, len(observed), each):
        if expected[at : at + each] == observed[at : at + each]:
            equal += 1
        elif not first:
            first = tell(at // each, expected[at : at + each], observed[at : at + each])
    return Candidate(name, equal, first)


def best(tried: List[Candidate], most: int = 3) -> List[Candidate]:
    """The closest of those that do not explain all."""
    return sorted((one for one in tried if one.first), key=lambda one: -one.equal)[:most]
