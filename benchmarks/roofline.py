#!/usr/bin/env python3
"""Draws GEMMs and quantizers of docs/performance.md against the peaks of tensor cores and memory.

  roofline.py [PAGE [PICTURE]]            writes docs/roofline.svg from docs/performance.md, or PICTURE from PAGE
  roofline.py --check [PAGE [PICTURE]]    exit code 1 if the picture is not what would be written

A GEMM has 2 m n k operations, and moves each operand with its scales once and D in BF16. A quantizer has two operations an element, a comparison
and a product, and moves the bytes of its row's MB. Ragged groups and weight gradients are left out. Exit code 2: the page or a row cannot be read.
"""

import math
import pathlib
import re
import sys
from html import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEAKS = (("FP8", 1979), ("BF16", 989))  # dense, TFLOPS: NVIDIA's data sheets of the H100 and H200 (SXM), which are the same
# Bytes of an element of A and B with its scales.
OPERANDS = {"FP8 1x128 by 128x128": (1 + 4 / 128, 1 + 4 / 16384), "FP8 1x128 by 1x128": (1 + 4 / 128,) * 2, "BF16": (2, 2),
            "MXFP8": (1 + 1 / 32,) * 2, "NVFP4": (0.5 + 1 / 16,) * 2}
COLOURS = {"FP8 1x128 by 128x128": "#0072b2", "FP8 1x128 by 1x128": "#56b4e9", "BF16": "#222222", "MXFP8": "#d55e00", "NVFP4": "#cc79a7",
           "quantizers": "#009e73", "NVFP4 quantizers": "#e69f00"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 480, 60, 210, 20, 50
X, Y = (0.3, 8000), (0.3, 3000)  # operations a byte; TFLOPS


class Unreadable(Exception):
    """What is wrong with the page, in a sentence."""


def section(page, name):
    found = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^##+ |\Z)", page, re.MULTILINE | re.DOTALL)
    if not found:
        raise Unreadable(f'no section "## {name}"')
    return found[1]


def rows(text, where, columns):
    """The first table of a section: of each row, the cells of these columns."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    for column in columns:
        if not lines or column not in lines[0]:
            raise Unreadable(f'"{where}" has no table with a column "{column}"')
    return [[line[lines[0].index(column)] for column in columns] for line in lines[2:] if len(line) == len(lines[0])]


def number(text, where):
    found = re.match(r"[\d,]+(\.\d+)?", text)
    if not found or float(found[0].replace(",", "")) <= 0:
        raise Unreadable(f'{where}: "{text}" is no number above 0')
    return float(found[0].replace(",", ""))


def rate(page, pattern, what):
    found = re.search(pattern, " ".join(page.split()))
    if not found:
        raise Unreadable(f"{what} is not said")
    return float(found[1])


def gemms(page):
    """(kind, operations a byte, TFLOPS, case) of every GEMM whose shape is in its row."""
    for case, tflops in rows(section(page, "Hopper GEMMs"), "Hopper GEMMs", ("case", "TFLOPS")):
        kind = next((name for name in OPERANDS if case.startswith(name)), None)
        if kind is None:
            raise Unreadable(f'"{case}" begins with none of {", ".join(OPERANDS)}')
        dense, groups = re.search(r", (\d+)x(\d+)x(\d+)$", case), re.search(r", (\d+) groups of (\d+) rows, (\d+)x(\d+)$", case)
        if "gradient" in case or not (dense or groups):
            continue
        m, n, k = map(int, dense.groups() if dense else groups.groups()[1:])  # of one group: all are alike
        a, b = OPERANDS[kind]
        yield kind, 2 * m * n * k / (a * m * k + b * n * k + 2 * m * n), number(tflops, case), f"{case}: {tflops} TFLOPS"


def quantizers(page):
    for name, kind in (("Hopper quantization kernels", "quantizers"), ("Hopper NVFP4 quantization", "NVFP4 quantizers")):
        text = section(page, name)
        for case, megabytes, rate_of in rows(text, name, ("case", "MB", "GB/s")):
            shape = re.search(r"(\d+)x(\d+)(?: experts=.*)?$", case) if kind == "quantizers" else re.search(r"of (\d+) x (\d+)", text)
            if not shape:
                raise Unreadable(f'"{case}" has no shape')
            operations = 2 * int(shape[1]) * int(shape[2]) / (number(megabytes, case) * 1e6)
            yield kind, operations, operations * number(rate_of, case) / 1e3, f"{case}: {rate_of} GB/s"


def at(value, ends, low, high):
    share = (math.log(value) - math.log(ends[0])) / (math.log(ends[1]) - math.log(ends[0]))
    return round(low + min(max(share, 0), 1) * (high - low), 1)


def x_of(value):
    return at(value, X, LEFT, WIDTH - RIGHT)


def y_of(value):
    return at(value, Y, HEIGHT - BOTTOM, TOP)


def text(x, y, words, more=""):
    return f'<text x="{x}" y="{y}"{more}>{escape(words)}</text>'


def axes():
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - RIGHT - LEFT}" height="{HEIGHT - BOTTOM - TOP}" class="frame"/>'
    for value in (1, 10, 100, 1000):
        yield f'<line x1="{x_of(value)}" y1="{TOP}" x2="{x_of(value)}" y2="{HEIGHT - BOTTOM}" class="grid"/>'
        yield text(x_of(value), HEIGHT - BOTTOM + 16, f"{value}", ' text-anchor="middle"')
        yield f'<line x1="{LEFT}" y1="{y_of(value)}" x2="{WIDTH - RIGHT}" y2="{y_of(value)}" class="grid"/>'
        yield text(LEFT - 6, y_of(value) + 4, f"{value}", ' text-anchor="end"')
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "operations a byte", ' text-anchor="middle"')
    yield text(LEFT, TOP - 6, "TFLOPS")


def roofs(page):
    copies = (("H200", rate(section(page, "Hopper quantization kernels"), r"the copy moves (\d+) GB/s", "the H200's copy"), "roof"),
              ("H100", rate(section(page, "Routers"), r"on an H100 whose best copy is at (\d+) GB/s", "the H100's copy"), "roof dashed"))
    for card, copy, look in copies:
        ends = (X[0], max(peak for _, peak in PEAKS) * 1e3 / copy)
        points = [(value, value * copy / 1e3) for value in ends]
        points = [(max(value, Y[0] * 1e3 / copy), max(tflops, Y[0])) for value, tflops in points]
        yield (f'<line x1="{x_of(points[0][0])}" y1="{y_of(points[0][1])}" x2="{x_of(points[1][0])}" y2="{y_of(points[1][1])}" class="{look}">'
               f"<title>{card}: the copy, {copy:.0f} GB/s</title></line>")
    fastest = max(copy for _, copy, _ in copies)
    for name, peak in PEAKS:
        yield f'<line x1="{x_of(peak * 1e3 / fastest)}" y1="{y_of(peak)}" x2="{WIDTH - RIGHT}" y2="{y_of(peak)}" class="roof"/>'
        yield text(WIDTH - RIGHT + 8, y_of(peak) + 4, f"{name}: {peak}")


def dot(kind, on_h100, x, y, title):
    colour = f'fill="none" stroke="{COLOURS[kind]}" stroke-width="1.5"' if on_h100 else f'fill="{COLOURS[kind]}"'
    return f'<circle cx="{x}" cy="{y}" r="4" {colour}><title>{escape(title)}</title></circle>'


def legend(kinds, on_h100):
    y = TOP + 110
    for kind in kinds:
        yield dot(kind, kind in on_h100, WIDTH - RIGHT + 14, y, kind)
        yield text(WIDTH - RIGHT + 26, y + 4, kind)
        y += 20
    for words in ("filled: H200; empty: H100", "sloped lines: the card's copy,", "H200 solid, H100 dashed"):
        y += 16
        yield text(WIDTH - RIGHT + 8, y, words)


def drawn(page):
    points = [*gemms(page), *quantizers(page)]
    kinds = [kind for kind in COLOURS if any(point[0] == kind for point in points)]
    body = [*axes(), *roofs(page)]
    on_h100 = set(OPERANDS) if "on an H100" in section(page, "Hopper GEMMs").split("|")[0] else set()
    body += [dot(kind, kind in on_h100, x_of(operations), y_of(tflops), title) for kind, operations, tflops, title in points]
    style = ("text{font:12px sans-serif;fill:#222} .frame{fill:none;stroke:#888} .grid{stroke:#ddd} .roof{stroke:#666;stroke-width:1.5} "
             ".dashed{stroke-dasharray:6 4}")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">'
    return "\n".join([head, "<title>GEMMs and quantizers against the peaks of tensor cores and memory</title>", f"<style>{style}</style>",
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *body, *legend(kinds, on_h100), "</svg>"]) + "\n"


def main(arguments):
    check = arguments[:1] == ["--check"]
    arguments = arguments[check:]
    if len(arguments) > 2 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    page = pathlib.Path(arguments[0] if arguments else ROOT / "docs/performance.md")
    picture = pathlib.Path(arguments[1]) if len(arguments) > 1 else page.with_name("roofline.svg")
    try:
        svg = drawn(page.read_text(encoding="utf-8"))
        if not check:
            picture.write_text(svg, encoding="utf-8")
        elif picture.read_text(encoding="utf-8") != svg:
            print(f"{picture} is not what {page} gives: run benchmarks/roofline.py", file=sys.stderr)
            return 1
    except (Unreadable, OSError, UnicodeDecodeError) as error:
        print(f"roofline.py: {page}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
