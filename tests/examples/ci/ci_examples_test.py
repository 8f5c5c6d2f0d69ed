"""examples/ci and docs/ci.md: ci_examples_test.py MXCHECK SOURCE_DIR FAULTY_LIBRARY"""

import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

try:
    import yaml
except ImportError:
    yaml = None

MXCHECK, SOURCE, FAULTY = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
EXAMPLES = SOURCE / "examples/ci"
GITHUB, GITLAB = EXAMPLES / "github/gate.yml", EXAMPLES / "gitlab/gitlab-ci.yml"
PAGES = [GITHUB, GITLAB, EXAMPLES / "bazel/gate.sh", EXAMPLES / "fetchcontent/CMakeLists.txt", SOURCE / "docs/ci.md"]
needs_yaml = unittest.skipIf(yaml is None, "python3-yaml is not installed: pipelines are not run")


def load(file):
    return yaml.safe_load(file.read_text())


def commands(text):
    """(subcommand, options) of every command line that starts with mxcheck, continued lines joined."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = re.split(r"\s#\s", line)[0]
        for call in re.findall(r"(?:^|[\s`(/])mxcheck((?: +(?:[a-z]+|--version))(?: [^`|>;]*)?)", line):
            words = call.split()
            if words[0] == "--version":
                continue
            yield words[0], [word.split("=")[0].rstrip(",.:)") for word in words[1:] if re.match(r"-[-a-zA-Z]", word)]


class Folder:
    """What a CI's workspace is: a checkout, with mxcheck where its cache puts it."""

    def __init__(self, path, candidate):
        self.path = pathlib.Path(path)
        (self.path / ".mxcheck").symlink_to(MXCHECK.parent.parent)
        (self.path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(x LANGUAGES NONE)\n")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI_", "TEST_", "GTEST_"))}
        # Installs and downloads never run: a test that gets that far fails, and changes nothing on the machine.
        self.refusing = self.path / "refusing"
        self.refusing.mkdir()
        for name in ("apt-get", "sudo", "git"):
            (self.refusing / name).write_text(f"#!/bin/sh\necho the pipeline called {name} >&2\nexit 99\n")
            (self.refusing / name).chmod(0o755)
        self.changed = {"CANDIDATE": candidate, "ONLY": "quantize_dual_equals*"}

    def shell(self, script, variables):
        environment = self.environment | {k: str(v) for k, v in variables.items()} | self.changed
        environment["PATH"] = f"{self.refusing}:{MXCHECK.parent}:{environment['PATH']}"
        script = re.sub("--suite (quick|full)", "--suite quick --cases 40", script)  # the pipelines' steps, not the suites
        command = ["bash", "-eo", "pipefail", "-c", script]
        return subprocess.run(command, cwd=self.path, env=environment, text=True, capture_output=True, check=False)


def github_steps(folder):
    """(job, result) of every step with a shell, in order; a job of a matrix once for each of its values."""
    workflow = load(GITHUB)
    for name, job in workflow["jobs"].items():
        matrix = job.get("strategy", {}).get("matrix", {})
        for values in itertools.product(*matrix.values()):
            known = {f"matrix.{key}": value for key, value in zip(matrix, values)} | {"github.run_number": 7}
            for step in job["steps"]:
                uploads = step.get("with", {}).get("path", "") if "upload-artifact" in step.get("uses", "") else ""
                text = re.sub(r"\$\{\{ (\S+) \}\}", lambda found: str(known[found[1]]), step.get("run", "") + uploads)
                if "run" in step:
                    variables = workflow["env"] | {"GITHUB_STEP_SUMMARY": folder.path / f"summary-{name}.md"}
                    yield name, folder.shell(text, variables)
                else:
                    folder.uploaded = [path for path in text.split() if path != "mxcheck-cases"]
                    for path in folder.uploaded:
                        if not (folder.path / path).exists():
                            raise AssertionError(f"{name}: {path} is to be kept, and is not there")


def gitlab_jobs(folder):
    pipeline = load(GITLAB)
    jobs = {name: job for name, job in pipeline.items() if isinstance(job, dict) and "script" in job}
    for name, job in sorted(jobs.items(), key=lambda item: pipeline["stages"].index(item[1]["stage"])):
        count = job.get("parallel", 1)
        for index in range(1, count + 1):
            variables = pipeline["variables"] | {"CI_PIPELINE_ID": 7, "CI_NODE_INDEX": index, "CI_NODE_TOTAL": count}
            yield name, folder.shell("\n".join(job["script"]), variables)


class CiExamples(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.access(MXCHECK, os.X_OK), f"{MXCHECK} is not there: it is being built")

    def run_pipeline(self, steps, candidate, expected):
        with tempfile.TemporaryDirectory() as path:
            folder, seen = Folder(path, candidate), {}
            for name, result in steps(folder):
                code = expected.get(name, 0)
                if code is not None:
                    self.assertEqual(result.returncode, code, f"{name}:\n{result.stdout}{result.stderr}")
                seen[name] = result.stdout
                if name == "gate" and code:
                    break
            self.assertLessEqual({"build", "gate"}, seen.keys())
            failures = xml.etree.ElementTree.parse(folder.path / "gate.xml").findall(".//failure")
            self.assertEqual(bool(failures), bool(expected))
            self.assertIn("<html", (folder.path / "gate.html").read_text())
            if not expected:
                self.assertIn("0 cases differ", seen["replay"])
                self.assertIn("every statement that ran held", seen["merge"])
                self.assertTrue((folder.path / "merged.html").exists() and (folder.path / "merged.xml").exists())
            return seen

    @needs_yaml
    def test_the_github_workflow_passes_a_right_library(self):
        seen = self.run_pipeline(github_steps, "cpu", {})
        self.assertIn("::notice title=mxcheck gate,file=kernels/quantize.cu", seen["merge"])

    @needs_yaml
    def test_the_gitlab_pipeline_passes_a_right_library(self):
        self.run_pipeline(gitlab_jobs, "cpu", {})

    @needs_yaml
    def test_the_github_workflow_stops_a_wrong_library_and_annotates(self):
        seen = self.run_pipeline(github_steps, FAULTY, {"gate": 1})
        self.assertIn("::error title=quantize_dual_equals_the_reference,file=kernels/quantize.cu", seen["gate"])

    @needs_yaml
    def test_the_gitlab_pipeline_stops_a_wrong_library(self):
        self.run_pipeline(gitlab_jobs, FAULTY, {"gate": 1, "shards": None})

    @needs_yaml
    def test_jobs_need_jobs_that_there_are(self):
        jobs = load(GITHUB)["jobs"]
        for name, job in jobs.items():
            needs = job.get("needs", [])
            self.assertLessEqual(set([needs] if isinstance(needs, str) else needs), jobs.keys(), name)
        pipeline = load(GITLAB)
        for name, job in pipeline.items():
            if isinstance(job, dict) and "script" in job:
                self.assertIn(job["stage"], pipeline["stages"], name)
                self.assertLessEqual(set(job.get("needs", [])), pipeline.keys(), name)

    def test_every_command_line_has_options_that_the_tool_has(self):
        helps = {}
        for page in PAGES:
            found = list(commands(page.read_text()))
            self.assertTrue(found, page)
            for subcommand, options in found:
                if subcommand not in helps:
                    answer = subprocess.run([MXCHECK, subcommand, "--help"], capture_output=True, text=True, check=False)
                    self.assertEqual(answer.returncode, 0, f"{page}: no mxcheck {subcommand}")
                    text = answer.stdout.split("\nExit codes")[0]
                    helps[subcommand] = set(re.findall(r"(?:^  |,)(--?[a-z][-a-z]*)", text, re.MULTILINE))
                for option in options:
                    self.assertIn(option, helps[subcommand], f"{page}: mxcheck {subcommand}")

    def test_the_bazel_script_has_the_exit_code_of_the_gate(self):
        script = EXAMPLES / "bazel/gate.sh"
        for candidate, code in (("cpu", 0), (FAULTY, 1)):
            with tempfile.TemporaryDirectory() as path:
                folder = pathlib.Path(path)
                environment = os.environ | {
                    "MXCHECK": str(MXCHECK),
                    "XML_OUTPUT_FILE": str(folder / "test.xml"),
                    "TEST_UNDECLARED_OUTPUTS_DIR": path,
                }
                for shards in ({}, {"TEST_TOTAL_SHARDS": "1", "TEST_SHARD_INDEX": "0", "TEST_SHARD_STATUS_FILE": path + "/s"}):
                    answer = subprocess.run(
                        [script, candidate, "--only", "quantize_dual_equals*", "--cases", "40"],
                        cwd=folder, env=environment | shards, text=True, capture_output=True, check=False,
                    )  # fmt: skip
                    self.assertEqual(answer.returncode, code, answer.stdout + answer.stderr)
                    xml.etree.ElementTree.parse(folder / "test.xml")
                    self.assertTrue((folder / "gate.html").exists())
                self.assertTrue((folder / "s").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
