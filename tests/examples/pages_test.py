"""Runs the examples of one page and compares what they print: pages_test.py SOURCE_DIR BUILD_DIR PAGE

An example is a block, fenced or indented, with lines "$ COMMAND"; the lines below a command are its output. A line "..." stands for any lines,
"..." within a line for any characters; an output that does not end in "..." must end where the page's does. Commands share one folder, in the
page's order, with links to the checkout's folders. `cat FILE` makes that file where there is none. Blocks of Python without prompts run as a
script, blocks of C are compiled. "<!-- not run: REASON -->" before a block leaves it out.

Seconds, rates, digests, commits, versions and identify's numbers of words are not compared. 77: nothing could run here (a package of Debian or Python is missing).
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD, PAGE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
SKIPPED, NOT_HERE = 77, 3
MISSING = "No module named"
LANGUAGES = ("", "sh", "bash", "console", "text", "python", "c")

# `./run mxcheck` builds before it runs; here everything is built.
RUN = """#!/bin/sh
case "$1" in
  mxcheck) shift; exec "{tool}" "$@" ;;
  build) exit 0 ;;
  *) echo "run: $1 is not part of an example" >&2; exit 2 ;;
esac
"""

CHANGING = [
    (r"\b\d+(\.\d+)?(e[+-]?\d+)? ?(s|ms|us|min|h)\b", "TIME"),
    (r"\b\d+(\.\d+)? (seconds|minutes)\b", "TIME"),
    (r"\b[\d,.]+ (a|per) second", "RATE"),
    (r"\d+ words of \d+ (probes|cases)", "WORDS"),
    (r"in \d+ shapes", "SHAPES"),
    (r"digest [0-9a-f]{16}", "digest"),
    (r"\bcommit [0-9a-f]+( \(modified\))?", "commit"),
    (r"\b(numpy|python|torch|triton) \d[\w.+]*", r"\1"),
    (r"\(/\S*/", "("),
    (r" +", " "),
]


class Block:
    def __init__(self, line, language, text, reason):
        self.line, self.language, self.text, self.reason = line, language, text, reason

    def commands(self):
        """Each command with the lines that the page shows of its output."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, rest = part.partition("\n")
            while command.endswith("\\"):
                more, _, rest = rest.partition("\n")
                command = command[:-1] + more.removeprefix("> ").strip()
            yield command, rest.rstrip("\n").splitlines()


def blocks(page):
    """The page's blocks; an indented one has the language ""."""
    lines = page.splitlines()
    at, reason = 0, None
    while at < len(lines):
        line = lines[at]
        if skip := re.fullmatch(r"<!-- not run: (.+) -->", line.strip()):
            reason = skip.group(1)
        elif fence := re.fullmatch(r"( *)```(\w*)", line):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            indent = len(fence.group(1))
            yield Block(at + 1, fence.group(2), "\n".join(x[indent:] for x in lines[at + 1 : end]) + "\n", reason)
            at, reason = end, None
        elif line.startswith("    $ "):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or (not lines[end] and lines[end + 1 : end + 2] and lines[end + 1].startswith("    "))):
                end += 1
            yield Block(at + 1, "", "\n".join(x[4:] for x in lines[at:end]) + "\n", reason)
            at, reason = end - 1, None
        elif line.strip():
            reason = None
        at += 1


def steady(line):
    """A line without what changes from run to run."""
    for pattern, word in CHANGING:
        line = re.sub(pattern, word, line)
    return line.strip()


def matches(shown, printed):
    pattern = ".*".join(re.escape(steady(part)).replace(r"\ ", " ") for part in shown.split("..."))
    return re.fullmatch(pattern.replace(".* ", ".*").replace(" .*", ".*"), steady(printed)) is not None


def difference(shown, printed):
    """None where the output is as shown, else what is not, in words."""
    runs, last_is_open = [[]], bool(shown) and shown[-1] == "..."
    for line in shown:
        runs.append([]) if line == "..." else runs[-1].append(line)
    at = 0
    for number, run in enumerate(runs):
        if not run:
            continue
        last = number == len(runs) - 1
        places = [0] if number == 0 else range(at, len(printed) - len(run) + 1)
        if last and number > 0:
            places = [len(printed) - len(run)]
        found = next((i for i in places if i >= at and len(printed) >= i + len(run) and all(map(matches, run, printed[i : i + len(run)]))), None)
        if found is None:
            return "the output does not have\n    " + "\n    ".join(run)
        at = found + len(run)
    if not last_is_open and at != len(printed):
        return "the output goes on with\n    " + "\n    ".join(printed[at : at + 5])
    return None


def folder_of_examples(folder):
    for entry in SOURCE.iterdir():
        if entry.is_dir() and not entry.name.startswith(".") and entry.name != "build":
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(BUILD)
    run = folder / "run"
    run.write_text(RUN.format(tool=BUILD / "bin" / "mxcheck"))
    run.chmod(0o755)


class Page:
    def __init__(self, folder):
        self.folder, self.ran, self.left_out, self.wrong = folder, 0, 0, []
        self.environment = dict(
            os.environ,
            PATH=f"{BUILD / 'bin'}:{os.environ['PATH']}",
            PYTHONPATH=str(SOURCE / "python"),
            PYTHONDONTWRITEBYTECODE="1",
            MXCHECK_TOOL=str(BUILD / "bin" / "mxcheck"),
            MXCHECK_C_LIBRARY=str(BUILD / "lib" / "libmxcheck_c.so"),
            MXCHECK_PYTHON=sys.executable,
            NO_COLOR="1",
        )

    def start(self, command, **options):
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
        )

    def command(self, line, command, shown):
        make = re.fullmatch(r"cat (\S+)", command)
        if make and not (self.folder / make.group(1)).exists():
            (self.folder / make.group(1)).write_text("\n".join(shown) + "\n")
            return
        command = re.sub(r"^python3? ", sys.executable + " ", command)
        answer = self.start(["bash", "-c", command])
        what = None
        printed = [each for each in answer.stdout.splitlines() if not each.startswith("the machine was busy")]
        if answer.returncode == NOT_HERE or MISSING in answer.stdout:
            self.left_out += 1
            print(f"{PAGE}:{line}: cannot run here: $ {command}\n{answer.stdout.strip()[-300:]}")
            return
        if not shown and answer.returncode != 0 and f"exit code {answer.returncode}" not in command:
            what = f"exit code {answer.returncode}\n{answer.stdout[-2000:]}"
        elif shown:
            what = difference(shown, printed)
            if what:
                what += "\nit is\n" + answer.stdout[-6000:]
        self.ran += 1
        if what:
            self.wrong.append(f"{PAGE}:{line}: $ {command}\n{what}")

    def block(self, block):
        if re.search(r"^\$ ", block.text, re.MULTILINE):
            for command, shown in block.commands():
                self.command(block.line, command, shown)
        elif block.language == "python" and ">>>" not in block.text:
            self.program(block, "py", [sys.executable])
        elif block.language == "c":
            self.program(block, "c", ["cc", "-std=c11", "-Wall", "-Werror", "-fPIC", "-shared", f"-I{SOURCE}", "-o", "example.so"])

    def program(self, block, suffix, command):
        path = self.folder / f"example.{suffix}"
        path.write_text(block.text)
        answer = self.start([*command, path.name])
        if MISSING in answer.stdout:
            self.left_out += 1
            print(f"{PAGE}:{block.line}: cannot run here: {answer.stdout.splitlines()[-1]}")
            return
        self.ran += 1
        if answer.returncode != 0:
            self.wrong.append(f"{PAGE}:{block.line}: exit code {answer.returncode}\n{answer.stdout}")


def main():
    found = list(blocks((SOURCE / PAGE).read_text()))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder_of_examples(folder)
        page = Page(folder)
        for block in found:
            if block.language not in LANGUAGES:
                continue
            if block.reason:
                page.left_out += 1
            else:
                page.block(block)
    for text in page.wrong:
        print(text)
    print(f"{PAGE}: {page.ran} examples run, {len(page.wrong)} print something else, {page.left_out} left out")
    sys.exit(1 if page.wrong else 0 if page.ran else SKIPPED)


main()
