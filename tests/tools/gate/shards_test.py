"""Shards of real runs: how fast a thousand are merged, and how evenly time is dealt.

usage: shards_test.py TOOL [merge|times]

merge: 1,000 shards of the CPU library's quick suite with few cases, merged within 10 seconds into the report of one run.
times: the quick suite in three and in four shards, whose CPU seconds differ by at most a fifth.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOL = sys.argv.pop(1)
RUN = ["--candidate", "cpu", "--seed", "7", "--save", ""]
SHARDS, SECONDS_TO_MERGE = 1000, 10
MOST_APART = 1.2


def tool(*arguments, cwd=None, code=0):
    """CPU seconds of the tool and the candidate's processes."""
    process = subprocess.Popen([TOOL, *map(str, arguments)], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    assert process.returncode == code, (arguments, process.returncode, errors)
    return usage.ru_utime + usage.ru_stime


def without_times(path):
    return re.sub(r'"seconds": [0-9.e+-]+', '"seconds": 0', Path(path).read_text())


class Shards(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def shard(self, number, count, *more):
        return tool("gate", *RUN, "--jobs", 1, "--shard", f"{number}/{count}", "--allow-empty-shard", "--report", f"{number}.json", *more, cwd=self.folder.name)

    def expect_report_of_one_run(self, merged, *more):
        tool("gate", *RUN, "--jobs", 1, "--report", "whole.json", *more, cwd=self.folder.name)
        self.assertEqual(without_times(f"{self.folder.name}/{merged}"), without_times(f"{self.folder.name}/whole.json"))


class Merge(Shards):
    def test_a_thousand_are_merged_within_ten_seconds(self):
        few = ("--cases", 20)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda number: self.shard(number, SHARDS, *few), range(1, SHARDS + 1)))
        files = [f"{number}.json" for number in range(1, SHARDS + 1)]
        size = sum(os.path.getsize(f"{self.folder.name}/{file}") for file in files)
        begun = time.monotonic()
        cpu = tool("merge", *files, "--report", "merged.json", cwd=self.folder.name)
        seconds = time.monotonic() - begun
        print(f"{SHARDS} shards of {size / SHARDS / 1000:.0f} kB merged in {seconds:.1f} s ({cpu:.1f} s of CPU)")
        self.assertLess(seconds, SECONDS_TO_MERGE)
        self.expect_report_of_one_run("merged.json", *few)


class Times(Shards):
    def times(self, count):
        """CPU seconds of each shard: the least of up to three measurements, for whatever else the machine does adds to them."""
        seconds = [self.shard(number, count) for number in range(1, count + 1)]
        for _ in range(2):
            if max(seconds) < MOST_APART * min(seconds):
                break
            seconds = [min(before, self.shard(number, count)) for number, before in enumerate(seconds, 1)]
        return seconds

    def test_of_shards_are_within_a_fifth_of_each_other(self):
        for count in (3, 4):
            seconds = self.times(count)
            print(f"CPU seconds of {count} shards: {', '.join(f'{one:.1f}' for one in seconds)}; longest / shortest {max(seconds) / min(seconds):.2f}")
            self.assertLess(max(seconds), MOST_APART * min(seconds))
            tool("merge", *[f"{number}.json" for number in range(1, count + 1)], "--report", "merged.json", cwd=self.folder.name)
        self.expect_report_of_one_run("merged.json")


if __name__ == "__main__":
    names = {"merge": ["Merge"], "times": ["Times"]}
    chosen = names[sys.argv.pop(1)] if len(sys.argv) > 1 else ["Merge", "Times"]
    unittest.main(argv=[sys.argv[0], *chosen])
