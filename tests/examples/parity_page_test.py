"""Commands of docs/parity.md and of the pages of results, run as they stand: parity_page_test.py MXCHECK SOURCE_DIR

77: the headers of Boost are not those that runs are trained on.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from page_blocks import PageTest, blocks

MXCHECK, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
SKIPPED, OTHER_MACHINE, INCONCLUSIVE, INFERIOR = 77, 3, 4, 1


class Page(PageTest):
    def run_block(self, beginning, leave_out=()):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, PATH=f"{MXCHECK.parent}:{os.environ['PATH']}")
            for command, shown in blocks(SOURCE, beginning, "parity.md"):
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
        for command, shown in blocks(SOURCE, beginning, of):
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
        self.run_in_source("## What it took", "parity_recipes.md", 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
