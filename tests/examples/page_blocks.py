"""Blocks of commands with their answers on the pages of docs/.

What a block shows of an answer must be its beginning; what comes after a line "..." must follow further below, in
order; where the block does not end in "...", its end must be the answer's.
"""

import pathlib
import re
import unittest


def blocks(source: pathlib.Path, beginning, of):
    """Commands of the page's section that begins with this text, each with the lines that are shown of its answer."""
    page = (source / "docs" / of).read_text()
    section = page[page.index(beginning) :]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL).group(1).replace("\\\n", "")
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def runs_of(shown):
    """Lines that stand together, of a block whose "..." leave something out; the first run is empty if it begins so."""
    runs = [[]]
    for line in shown:
        if line == "...":
            runs.append([])
        else:
            runs[-1].append(line)
    return runs


class PageTest(unittest.TestCase):
    def expect_shown(self, shown, lines, command):
        first, *others = runs_of(shown)
        self.assertEqual(lines[: len(first)], first, command)
        at = len(first)
        for run in filter(None, others):
            places = [i for i in range(at, len(lines)) if lines[i : i + len(run)] == run]
            self.assertTrue(places, f"{command}: nowhere after line {at}: " + "\n".join(run))
            at = places[0] + len(run)
        if others and others[-1]:
            self.assertEqual(lines[-len(others[-1]) :], others[-1], f"{command}: what ends a block must end the answer")
