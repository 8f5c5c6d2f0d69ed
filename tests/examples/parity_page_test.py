"""Commands of docs/parity.md and of the pages of results, run as they stand: parity_page_test.py MXCHECK SOURCE_DIR

What a block shows of an answer must be its beginning; what comes after a line "..." must follow further below, in
order; where the block does not end in "...", its end must be the answer's. 77: the headers of Boost are not those that runs are trained on.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

MXCHECK, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
SKIPPED, OTHER_MACHINE, INCONCLUSIVE, INFERIOR = 77, 3, 4, 1


def blocks(beginning, of="parity.md"):
    """Commands of the section that begins with this text, each with the lines that are shown of its answer."""
    page = (SOURCE / "docs" / of).read_text()
    section = page[page.index(beginning) :]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL).group(1)
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


class Page(unittest.TestCase):
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

    def run_block(self, beginning, leave_out=()):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, PATH=f"{MXCHECK.parent}:{os.environ['PATH']}")
            for command, shown in blocks(beginning):
                if command.startswith("cat "):
                    (pathlib.Path(folder) / command.split()[1]).write_text("\n".join(shown))
                    continue
                if any(words in command for words in leave_out):
                    continue
                answer = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
                if answer.returncode == OTHER_MACHINE:
                    sys.exit(SKIPPED)
                self.assertEqual(answer.returncode, 0, command + "\n" + answer.stderr)
                self.expect_shown(shown, answer.stdout.splitlines(), command)

    def test_branches(self):
        self.run_block("**Branches")

    def test_campaigns(self):
        self.run_block("**Campaigns", leave_out=("--engine sm90", "compare"))  # which need a GPU, and what it computed

    def run_in_source(self, beginning, of, code):
        for command, shown in blocks(beginning, of):
            words = [str(MXCHECK), *command.split()[1:]]
            answer = subprocess.run(" ".join(words), shell=True, cwd=SOURCE, capture_output=True, text=True, check=False)
            self.assertEqual(answer.returncode, code, answer.stderr)
            self.expect_shown(shown, answer.stdout.splitlines(), command)

    def test_verdicts(self):
        self.run_in_source("## Verdicts", "parity.md", INCONCLUSIVE)
        self.run_in_source("# What the first runs", "parity_results.md", INCONCLUSIVE)
        self.run_in_source("# The table of recipes", "parity_recipes.md", INCONCLUSIVE)

    def test_verdicts_from_25_percent(self):
        self.run_in_source("## From 25 %", "parity_recipes.md", INFERIOR)  # mxfp8_floor is

    def test_from_scratch(self):
        self.run_in_source("## From scratch", "parity_recipes.md", INCONCLUSIVE)

    def test_size_of_the_campaign(self):
        self.run_in_source("## Repeat the campaigns", "parity_recipes.md", 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
