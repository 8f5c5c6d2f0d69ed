"""Commands of docs/layer.md, run as they stand with examples/layer/layer.py: layer_page_test.py MXCHECK SOURCE_DIR, by a Python with numpy."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from page_blocks import PageTest, blocks

MXCHECK, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


class Page(PageTest):
    def test_the_layer_is_computed_and_the_fault_of_a_dump_found(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for part in ("examples", "goldens"):
                (folder / part).symlink_to(SOURCE / part)
            for program, text in (("run", 'shift; exec "$MXCHECK" "$@"'), ("python3", f'exec {sys.executable} "$@"')):
                (folder / program).write_text(f"#!/bin/sh\n{text}\n")
                (folder / program).chmod(0o755)
            environment = dict(os.environ, MXCHECK=str(MXCHECK), PATH=f"{folder}:{os.environ['PATH']}")
            for section in ("## Compute a layer", "## Compare a dump"):
                for command, shown in blocks(SOURCE, section, "layer.md"):
                    answer = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
                    self.assertEqual(answer.returncode, 1 if "--against" in command else 0, command + "\n" + answer.stderr)
                    self.expect_shown(shown, answer.stdout.splitlines(), command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
