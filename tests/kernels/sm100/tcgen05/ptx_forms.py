#!/usr/bin/env python3
"""The forms of a PTX file: which instructions of sm_100a each function has, with which operands in which order.

    ptx_forms.py FILE            function by function
    ptx_forms.py FILE --summary  how often each opcode occurs in the whole file, and what of it is suspect

A form is an opcode with all of its qualifiers, and its operands as values instead of registers:

    $0, $1       the function's parameters          [$0]        a memory operand
    in[3]        word 3 of what a parameter points to       out[3]   a result that is stored there
    #2, #2.1     the result (the second) of this function's form number 2, counted from 0
    16           a number, without sign              $4 != 0     a predicate
    {out[0..31]} a list of registers, here of 32

so that two operands of the same kind that change places change the form. A value is followed through moves,
conversions of addresses, and predicates that become numbers and back; other arithmetic is shown as it is. Control flow
is not followed: the functions that the forms are compared for have none but a wait's loop, which is shown
(@!#0 bra #0).

Does not check that ptxas takes the text: forms_test.py assembles it.
"""

import argparse
import collections
import dataclasses
import re
import sys

# Instructions that are shown: those that this project's kernels meet on sm_100a alone, and those that synchronize.
SHOWN = re.compile(
    r"(tcgen05|mbarrier|barrier|bar|clusterlaunchcontrol|fence|setmaxnreg|mapa|elect|griddepcontrol|shfl)\b"
    r"|cp\.async\.bulk|prefetch\.tensormap|(ld|st)\.shared|(ld|st)\.\w+\.v8|cvt\..*ue8m0x2|\w+\.rn\.f32x2")
# Instructions that write no register.
WITHOUT_RESULT = re.compile(
    r"(tcgen05\.(?!ld)|mbarrier\.(init|inval|expect_tx|complete_tx)|barrier|bar\.|clusterlaunchcontrol\.try_cancel"
    r"|fence|setmaxnreg|griddepcontrol|cp\.|prefetch|st\.|red\.|bra|ret|exit|trap|membar|nanosleep)")
NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?$")
WORD = re.compile(r"[A-Za-z_$%][\w$]*")
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@dataclasses.dataclass
class Statement:
    guard: str
    opcode: str
    operands: list
    label: str = ""


@dataclasses.dataclass
class Function:
    name: str
    statements: list


def without_comments(text):
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def split(text):
    """At the commas outside of brackets and braces."""
    parts, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        depth += c in "[{("
        depth -= c in "]})"
        if c == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return parts + [last] if last else parts


class Scopes:
    """Names declared within the braces of an asm statement are that statement's own."""

    def __init__(self):
        self.stack = [{}]
        self.count = 0

    def open(self):
        self.stack.append({})

    def close(self):
        self.stack.pop()

    def declare(self, name):
        self.count += len(self.stack) > 1
        self.stack[-1][name] = f"{name}~{self.count}" if len(self.stack) > 1 else name

    def name(self, match):
        word = match.group(0)
        for scope in reversed(self.stack):
            if word in scope:
                return scope[word]
        return word

    def resolve(self, text):
        return WORD.sub(self.name, text)


def statement_of(text, scopes):
    guard = ""
    match = re.match(r"@(!?\s*[\w$%]+)\s+", text)
    if match:
        guard = scopes.resolve(match.group(1).replace(" ", ""))
        text = text[match.end():]
    opcode, _, rest = text.partition(" ")
    return Statement(guard, opcode, [scopes.resolve(o) for o in split(rest)])


def statements_of(body):
    """Those between a function's braces, labels too."""
    scopes, statements, words = Scopes(), [], ""
    at = 0
    while at < len(body):
        c = body[at]
        begins = not words.strip()
        if c == "{" and begins:
            scopes.open()
        elif c == "}" and begins:
            scopes.close()
        elif c == ":" and re.fullmatch(r"\s*[\w$]+\s*", words) and body[at + 1:at + 2] != ":":
            label = words.strip()
            scopes.declare(label)
            statements.append(Statement("", "", [], scopes.resolve(label)))
            words = ""
        elif c == ";":
            words = " ".join(words.split())
            if words.startswith("."):
                for name in words.split()[2:] if words.startswith(".reg") else []:
                    scopes.declare(name.rstrip(","))
            elif words:
                statements.append(statement_of(words, scopes))
            words = ""
        else:
            words += c
        at += 1
    return statements


def functions_of(text):
    """Entries and device functions with a body."""
    text = without_comments(text)
    functions = []
    for match in re.finditer(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\([^)]*\))?[^;{]*\{", text):
        depth, at = 1, match.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        functions.append(Function(match.group(1), statements_of(text[match.end():at - 1])))
    return functions


def run_of(items):
    """a[0], a[1], a[2] as a[0..2]."""
    parts = [re.fullmatch(r"(\w+)\[(\d+)\]", item) for item in items]
    if len(items) > 1 and all(parts) and len({p.group(1) for p in parts}) == 1:
        first = int(parts[0].group(2))
        if [int(p.group(2)) for p in parts] == list(range(first, first + len(items))):
            return f"{parts[0].group(1)}[{first}..{first + len(items) - 1}]"
    return ", ".join(items)


class Values:
    """What a function's registers hold, followed from its parameters on; and the forms met on the way."""

    def __init__(self, function):
        self.function = function
        self.held = {}
        self.truths = set()  # values that are 0 or 1
        self.stored = {}  # a form's result -> where it goes
        self.forms = []  # (guard, opcode, (result operand, its values) or None, other operands)
        self.labels = {}  # -> the number of the form that follows

    def value(self, operand):
        if NUMBER.match(operand):
            number = int(operand.rstrip("U"), 0)
            return str(number if number >= 0 else number % (2**32 if number >= -2**31 else 2**64))
        if operand.startswith("["):
            return "[" + ", ".join(self.value(o) for o in split(operand[1:-1])) + "]"
        if operand.startswith("{"):
            return "{" + run_of([self.value(o) for o in split(operand[1:-1])]) + "}"
        match = re.match(r"([^\s+]+)\s*\+\s*(-?\d+)$", operand)
        if match:
            return f"{self.value(match.group(1))}+{match.group(2)}"
        return self.held.get(operand, operand)

    def results(self, operand):
        """The registers that a result operand names; '_' is none."""
        names = split(operand[1:-1]) if operand.startswith("{") else operand.split("|")
        return [name.strip() for name in names]

    def word(self, opcode, memory, name):
        """in[i] or out[i], of words of the opcode's width, where the address is a parameter's."""
        match = re.fullmatch(r"\[(\$\d+)(?:\+(\d+))?\]", memory)
        width = re.search(r"\.[busf](\d+)$", opcode)
        if not match or not width or not re.match(r"(ld|st)(\.volatile)?(\.global)?\.[busf]\d+$", opcode):
            return None
        return f"{name}[{int(match.group(2) or 0) // BYTES[width.group(1)]}]"

    def computed(self, s):
        """The value of a statement that is not shown."""
        op, sources = s.opcode, [self.value(o) for o in s.operands[1:]]
        if op.startswith("ld.param"):
            match = re.match(r"\[.*_param_(\d+)(?:\+(\d+))?\]", s.operands[1])
            return f"${match.group(1)}" + (f"+{match.group(2)}" if match.group(2) else "") if match else sources[0]
        if op.startswith("ld"):
            word = self.word(op, sources[0], "in")
            if word:
                return word
        if op.startswith(("mov", "cvta")) or (op.startswith("cvt") and re.search(r"\.[us]\d+\.[us]\d+$", op)):
            return sources[0]
        if op.startswith("setp.ne") and sources[1] == "0":
            truth = sources[0] if sources[0] in self.truths else f"{sources[0]} != 0"
            self.truths.add(truth)
            return truth
        if op.startswith("selp") and sources[:2] == ["1", "0"] and sources[2] in self.truths:
            return sources[2]
        return f"{op}({', '.join(sources)})"

    def show(self, s):
        number = len(self.forms)
        has_result = not WITHOUT_RESULT.match(s.opcode)
        sources = [self.value(o) for o in s.operands[has_result:]]
        shown = []
        if has_result:
            names = self.results(s.operands[0])
            for i, name in enumerate(names):
                if name == "_":
                    shown.append("_")
                    continue
                value = f"#{number}" if len([n for n in names if n != "_"]) == 1 else f"#{number}.{i}"
                self.held[name] = value
                shown.append(value)
                if re.match(r"elect|mbarrier\.(try|test)_wait|clusterlaunchcontrol.*\.pred", s.opcode):
                    self.truths.add(value)
        self.forms.append((s.guard and self.guard(s.guard), s.opcode, has_result and (s.operands[0], shown), sources))

    def guard(self, guard):
        name = guard.lstrip("!")
        return "@" + "!" * guard.startswith("!") + self.value(name) + " "

    def step(self, s):
        if s.label:
            self.labels[s.label] = len(self.forms)
        elif SHOWN.match(s.opcode) or (s.opcode == "max.f32" and len(s.operands) == 4):
            self.show(s)
        elif s.opcode.startswith("bra"):
            if s.guard and self.value(s.guard.lstrip("!")) in self.truths:
                target = self.labels.get(s.operands[0])
                place = "forward" if target is None else f"#{target}"
                self.forms.append((self.guard(s.guard), "bra", None, [place]))
        elif s.opcode.startswith("st"):
            memory, value = self.value(s.operands[0]), self.value(s.operands[1])
            word = self.word(s.opcode, memory, "out")
            if word and re.fullmatch(r"#[\d.]+", value):
                self.stored[value] = word
            elif word:
                self.forms.append(("", "", None, [f"{word} = {value}"]))
        elif not WITHOUT_RESULT.match(s.opcode) and s.operands:
            value = self.computed(s)
            names = self.results(s.operands[0])
            for i, name in enumerate(names):
                # Both halves of a pair that a mov takes apart; the first of d|p.
                self.held[name] = value if len(names) == 1 or "|" in s.operands[0] else self.halves(value, i)
                if value in self.truths:
                    self.truths.add(self.held[name])

    def halves(self, value, i):
        items = split(value[1:-1]) if value.startswith("{") else None
        return items[i] if items and i < len(items) else f"{value}.{i}"

    def place(self, value):
        """Where a result is stored; of one that a mov took apart, where its halves are."""
        halves = [self.stored.get(f"{value}.{i}") for i in range(2)]
        return "{" + run_of(halves) + "}" if all(halves) else self.stored.get(value, value)

    def text(self):
        lines = []
        for guard, opcode, result, sources in self.forms:
            operands = list(sources)
            if result:
                written, shown = result
                names = [self.place(v) for v in shown]
                operands.insert(0, "{" + run_of(names) + "}" if written.startswith("{") else "|".join(names))
            lines.append((guard + opcode + (" " if opcode and operands else "") + ", ".join(operands)).strip())
        return lines


def forms_of(text):
    """Function -> its forms, one a line."""
    forms = {}
    for function in functions_of(text):
        values = Values(function)
        for s in function.statements:
            values.step(s)
        forms[function.name] = values.text()
    return forms


def registers_in(operands):
    return {word for operand in operands for word in WORD.findall(operand.replace("~", "_"))}


def read_before_wait(function):
    """Registers that tcgen05.ld wrote, read before the next tcgen05.wait::ld of the text: (opcode, register)."""
    pending, found = set(), []
    for s in function.statements:
        if s.opcode.startswith("tcgen05.wait::ld"):
            pending.clear()
        elif s.opcode.startswith("tcgen05.ld"):
            pending |= registers_in(s.operands[:1])
        elif s.opcode:
            has_result = not WITHOUT_RESULT.match(s.opcode)
            found += [(s.opcode, r) for r in sorted(pending & registers_in(s.operands[has_result:]))]
    return found


def suspects_of(functions):
    """What a kernel of this project never has, one line each."""
    lines = []
    for function in functions:
        groups = {g for s in function.statements for g in re.findall(r"^tcgen05\..*\.cta_group::(\d)", s.opcode)}
        if len(groups) > 1:
            lines.append(f"{function.name}: both cta_group::1 and cta_group::2")
        for opcode, register in read_before_wait(function):
            lines.append(f"{function.name}: {opcode} reads {register} between its tcgen05.ld and tcgen05.wait::ld")
        for s in function.statements:
            synchronizes = re.match(r"mbarrier\.(arrive|try_wait|test_wait)", s.opcode)
            if synchronizes and not re.search(r"\.(cta|cluster)\.", s.opcode):
                lines.append(f"{function.name}: {s.opcode} names no scope; without one it is .cta")
            if s.opcode.startswith("wgmma"):
                lines.append(f"{function.name}: {s.opcode} is Hopper's")
    return lines


def summary_of(text):
    functions = functions_of(text)
    counts = collections.Counter(
        s.opcode for f in functions for s in f.statements if s.opcode and SHOWN.match(s.opcode))
    lines = [f"{count:6} {opcode}" for opcode, count in sorted(counts.items())]
    return lines, suspects_of(functions)


def main():
    parser = argparse.ArgumentParser(description="the forms of a PTX file")
    parser.add_argument("file")
    parser.add_argument("--summary", action="store_true", help="count opcodes; exit code 1 if any is suspect")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="ascii") as file:
        text = file.read()
    if arguments.summary:
        lines, suspects = summary_of(text)
        print("\n".join(lines + ["suspect: " + s for s in suspects]))
        return 1 if suspects else 0
    for name, forms in forms_of(text).items():
        print(name)
        print("".join(f"  {form}\n" for form in forms), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
