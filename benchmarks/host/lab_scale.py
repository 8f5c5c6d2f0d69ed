"""What a lab of many GPUs does: measured rates of the gate times GPUs, and measured merges of many shards.

usage: lab_scale.py rates GPUS         the rows of docs/performance_log.md that gate on a GPU or replay, scaled
       lab_scale.py records            bytes of the committed records of GPU runs
       lab_scale.py merge TOOL SHARDS  writes, lists and merges the reports of so many shards in one folder
       lab_scale.py gpus TOOL LIBRARY LIST...
                                       gates the library on each list of GPUs (0 0,1): seconds, and whether the reports are one

A rate of many GPUs is that of one times their number: runs share nothing but the folder of their results. A merge is of
one shard's report under every index, so that its time has no counterexamples in it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
GATE = re.compile(r"\| `mxcheck gate --candidate (\w+) --seed \d+`, (quick|full)[^:]*: ([\d,]+) cases on an? (H\d+)[^|]*\| ([\d.]+) \|")
REPLAY = re.compile(r"\| `mxcheck replay goldens/records/(\w+)\.h5`: ([\d,]+) outputs, [^|]*\| ([\d.]+) \|")
SECONDS_OF_DAY = 86_400


def number(text):
    return int(text.replace(",", ""))


def rates(gpus):
    log = (SOURCE / "docs/performance_log.md").read_text()
    print(f"{'library':<12}{'suite':<7}{'GPU':<6}{'cases':>8}{'seconds':>9}{'cases/s':>9}{'GPU h for 10^9':>16}{f'cases/s of {gpus:,}':>20}{f'runs a day of {gpus:,}':>22}")
    quick = 0.0
    for library, suite, cases, gpu, seconds in GATE.findall(log):
        rate = number(cases) / float(seconds)
        quick += float(seconds) if suite == "quick" else 0
        print(f"{library:<12}{suite:<7}{gpu:<6}{number(cases):>8,}{float(seconds):>9.1f}{rate:>9.0f}{1e9 / rate / 3600:>16.0f}{rate * gpus:>20,.0f}{SECONDS_OF_DAY * gpus / float(seconds):>22,.0f}")
    print(f"the quick suites together: {quick:.1f} GPU seconds; {SECONDS_OF_DAY * gpus / quick:,.0f} commits a day of {gpus:,}")
    for record, outputs, seconds in REPLAY.findall(log):
        print(f"replay of {record}: {number(outputs) / float(seconds):,.0f} outputs/s on two cores")


def records():
    sizes = {path.name: path.stat().st_size for path in sorted((SOURCE / "goldens/records").glob("*_quick.h5"))}
    for name, size in sizes.items():
        print(f"{name:<24}{size / 1000:>8,.0f} kB")
    print(f"{'a commit':<24}{sum(sizes.values()) / 1000:>8,.0f} kB; a million commits {sum(sizes.values()) / 1e6:,.1f} TB")


def merge(tool, shards):
    with tempfile.TemporaryDirectory() as folder:
        run = [tool, "gate", "--candidate", "cpu", "--seed", "7", "--save", "", "--cases", "20", "--only", "scale_layout*", "--shard", f"1/{shards}", "--allow-empty-shard", "--report"]
        subprocess.run([*run, f"{folder}/first.json"], check=True, stdout=subprocess.DEVNULL)
        text = Path(folder, "first.json").read_text()
        index = re.search(r'("shard": \{[^}]*"index": )1\b', text)
        assert index, "the report has no index of a shard"
        begun = time.monotonic()
        for number_of in range(1, shards + 1):
            Path(folder, f"{number_of}.json").write_text(text[: index.end(1)] + str(number_of) + text[index.end() :])
        written = time.monotonic()
        names = sorted(str(path) for path in Path(folder).iterdir() if path.name != "first.json")
        listed = time.monotonic()
        done = subprocess.run([tool, "merge", *names, "--json"], stdout=subprocess.PIPE, check=False)
        merged = time.monotonic()
        assert done.returncode in (0, 4), done.returncode
        assert not json.loads(done.stdout).get("missing_shards"), "shards are missing"
        print(f"{shards:,} reports of {len(text) / 1000:.0f} kB: written in {written - begun:.1f} s, listed in {listed - written:.2f} s, merged in {merged - listed:.1f} s")


def without_times(report):
    return re.sub(r'"seconds": [0-9.e+-]+', '"seconds": 0', report)


def gpus(tool, library, lists):
    """The quick suite on each list of GPUs; the exit code is 1 if a report differs from the first in more than times."""
    reports, first = [], 0.0
    print(f"{'GPUs':<12}{'seconds':>9}{'of the first':>14}{'exit code':>11}  report")
    for visible in lists:
        with tempfile.TemporaryDirectory() as folder:
            run = [tool, "gate", "--candidate", library, "--suite", "quick", "--seed", "1", "--save", "", "--report", f"{folder}/report.json"]
            begun = time.monotonic()
            done = subprocess.run(run, env={**os.environ, "CUDA_VISIBLE_DEVICES": visible}, stdout=subprocess.DEVNULL, check=False)
            seconds = time.monotonic() - begun
            reports.append(without_times(Path(folder, "report.json").read_text()))
        first = first or seconds
        same = "the first" if len(reports) == 1 else "equal but for times" if reports[-1] == reports[0] else "DIFFERS"
        print(f"{visible:<12}{seconds:>9.1f}{first / seconds:>14.2f}{done.returncode:>11}  {same}", flush=True)
    sys.exit(any(report != reports[0] for report in reports))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rates", gpus]:
            rates(int(gpus))
        case ["records"]:
            records()
        case ["merge", tool, shards]:
            merge(tool, int(shards))
        case ["gpus", tool, library, *lists] if lists:
            gpus(tool, library, lists)
        case _:
            sys.exit(__doc__)
