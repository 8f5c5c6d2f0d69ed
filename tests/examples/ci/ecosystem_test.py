"""action.yml, the hooks of pre-commit, packaging/, .github/ and the files about a release: ecosystem_test.py MXCHECK SOURCE_DIR FAULTY_LIBRARY"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from ci_examples_test import EXAMPLES, FAULTY, MXCHECK, SOURCE, Folder, load, needs_yaml

FEW_CASES = "--cases 40 --only 'quantize_dual_equals*'"
WITH_ACTION = EXAMPLES / "github/gate_with_action.yml"
WORKFLOWS = [*sorted((SOURCE / ".github/workflows").glob("*.yml")), *sorted((EXAMPLES / "github").glob("*.yml"))]
ISSUES = SOURCE / ".github/ISSUE_TEMPLATE"


def text(path):
    return (SOURCE / path).read_text()


def packages():
    return {line for line in text("packages.txt").splitlines() if not line.startswith("#")}


class Action:
    """A runner: the steps of action.yml in a folder, with caches and artifacts as folders there."""

    def __init__(self, folder, **inputs):
        self.folder, self.action = folder, load(SOURCE / "action.yml")
        self.inputs = {name: about.get("default") for name, about in self.action["inputs"].items()} | inputs
        self.outputs, self.printed, self.code, self.did = {}, "", 0, []
        folder.changed = {}
        for step in self.action["runs"]["steps"]:
            condition = step.get("if", "success()")
            if self.holds(condition) and (self.code == 0 or "always()" in condition):
                self.did.append(step["name"])
                self.script(step) if "run" in step else self.uses(step)

    def value(self, name):
        kind, *rest = name.split(".")
        return self.inputs[rest[0]] if kind == "inputs" else self.outputs.get(rest[0], {}).get(rest[2], "")

    def filled(self, template):
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: self.value(found[1]), template)

    def holds(self, condition):
        def operand(found):
            word = found[0]
            return word if word.startswith("'") else "True" if word.endswith("()") else repr(self.value(word))

        python = re.sub(r"'[^']*'|\w+\(\)|\w+(\.[\w-]+)+", operand, condition)
        return eval(python.replace("&&", " and ").replace("||", " or "), {})

    def script(self, step):
        assert step["shell"] == "bash", step
        output = self.folder.path / "output"
        output.write_text("")
        given = {"GITHUB_ACTION_PATH": SOURCE, "GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": self.folder.path / "summary.md"}
        environment = {name: self.filled(value) for name, value in step.get("env", {}).items()}
        result = self.folder.shell(step["run"], given | environment)
        self.printed += result.stdout + result.stderr
        self.code = self.code or result.returncode
        self.outputs[step.get("id")] = dict(line.split("=", 1) for line in output.read_text().splitlines())

    def uses(self, step):
        given = {name: self.filled(value) for name, value in step["with"].items()}
        there = (self.folder.path / given["path"]).exists()
        if step["uses"].startswith("actions/cache/restore@"):
            assert re.fullmatch(r"mxcheck-\w+-[\w.]+-\w+-[0-9a-f]{16}", given["key"]), given
            self.outputs[step["id"]] = {"cache-hit": "true" if there else ""}
        elif not there:
            raise AssertionError(f"{step['name']}: {given['path']} is to be kept, and is not there")

    def result(self):
        found = re.fullmatch(r"\$\{\{ (\S+) \}\}", self.action["outputs"]["exit-code"]["value"])
        return self.value(found[1])


class TestAction(unittest.TestCase):
    def start(self, candidate, prepare=lambda folder: None, **inputs):
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(path, candidate)
            prepare(folder)
            action = Action(folder, candidate=candidate, args=FEW_CASES, source="kernels/quantize.cu:3", **inputs)
            action.kept = {file.name for file in (folder.path / "mxcheck-reports").rglob("*")}
            action.summary = (folder.path / "summary.md").read_text() if action.kept else ""
            action.calls = (folder.path / "calls").read_text() if (folder.path / "calls").exists() else ""
            return action

    @needs_yaml
    def test_a_right_library_passes(self):
        action = self.start("cpu")
        self.assertEqual((action.code, action.result()), (0, "0"), action.printed)
        self.assertIn("::notice title=mxcheck gate,file=kernels/quantize.cu,line=3", action.printed)
        self.assertIn("every statement that ran held", action.summary)
        self.assertLessEqual({"gate.xml", "gate.html"}, action.kept)
        self.assertEqual(action.did, ["Find the version", "Restore mxcheck", "Gate", "Keep the reports"])

    @needs_yaml
    def test_a_wrong_library_fails_and_its_reports_are_kept(self):
        action = self.start(FAULTY, tool=str(MXCHECK))
        self.assertEqual((action.code, action.result()), (1, "1"), action.printed)
        self.assertIn("::error title=quantize_dual_equals_the_reference,file=kernels/quantize.cu,line=3", action.printed)
        self.assertLessEqual({"gate.xml", "gate.html", "cases"}, action.kept)
        self.assertTrue(any(name.endswith(".safetensors") for name in action.kept), action.kept)
        self.assertEqual(action.did, ["Gate", "Keep the reports"])

    @needs_yaml
    def test_without_a_cache_the_tool_is_built(self):
        def prepare(folder):
            link = folder.path / ".mxcheck"
            link.unlink()
            log = 'echo "${0##*/} $*" >> calls\n'
            makes = f'case "$*" in *--install*--prefix\\ .mxcheck*) ln -s {MXCHECK.parent.parent} .mxcheck;; esac\n'
            for name, body in (("apt-get", log), ("cmake", log + makes), ("sudo", 'exec "$@"\n')):
                (folder.refusing / name).write_text("#!/bin/sh\n" + body)
                (folder.refusing / name).chmod(0o755)

        action = self.start("cpu", prepare, artifact="")
        self.assertEqual(action.code, 0, action.printed)
        self.assertEqual(action.did, ["Find the version", "Restore mxcheck", "Build mxcheck", "Save mxcheck", "Gate"])
        installed = re.search(r"^apt-get install -y --no-install-recommends (.*)$", action.calls, re.MULTILINE)
        self.assertEqual(set(installed[1].split()), packages())

    @needs_yaml
    def test_options_that_are_not_quoted_right_stop_it(self):
        with tempfile.TemporaryDirectory() as path:
            action = Action(Folder(path, "cpu"), candidate="cpu", args="--only 'quantize*")
        self.assertNotEqual(action.code, 0)
        self.assertNotIn("statement", action.printed)

    @needs_yaml
    def test_workflows_pass_inputs_that_there_are(self):
        inputs = load(SOURCE / "action.yml")["inputs"]
        seen = 0
        for workflow in (WITH_ACTION, SOURCE / ".github/workflows/ci.yml"):
            for job in load(workflow)["jobs"].values():
                for step in job["steps"]:
                    if step.get("uses") == "./" or step.get("uses", "").startswith("OWNER/mxcheck@"):
                        self.assertLessEqual(step["with"].keys(), inputs.keys(), workflow)
                        self.assertIn("candidate", step["with"], workflow)
                        seen += 1
        self.assertEqual(seen, 2)


class TestWorkflows(unittest.TestCase):
    @needs_yaml
    def test_every_script_is_valid_and_runs_what_there_is(self):
        steps = [(SOURCE / "action.yml", step) for step in load(SOURCE / "action.yml")["runs"]["steps"]]
        steps += [(file, step) for file in WORKFLOWS for job in load(file)["jobs"].values() for step in job["steps"]]
        for file, step in steps:
            self.assertIn("run" in step, (True, "uses" not in step), file)
            if "run" in step:
                answer = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False)
                self.assertEqual(answer.returncode, 0, f"{file}: {answer.stderr}")
        own = [word for file, step in steps if file.name == "ci.yml" for word in shlex.split(step.get("run", ""), comments=True)]
        self.assertLessEqual({".ci/run", "./run"}, set(own))
        self.assertTrue((SOURCE / ".ci/run").stat().st_mode & (SOURCE / "run").stat().st_mode & 0o100)

    def test_presets_and_options_are_those_of_the_project(self):
        presets = {preset["name"] for preset in json.loads(text("CMakePresets.json"))["configurePresets"] if not preset.get("hidden")}
        options = set(re.findall(r"\b(?:option|set)\((MXCHECK_[A-Z_]+)", text("CMakeLists.txt") + text("cmake/portable.cmake")))
        for path in ("action.yml", "packaging/Dockerfile", "packaging/conda/recipe.yaml", *WORKFLOWS, EXAMPLES / "gitlab/gitlab-ci.yml"):
            content = text(path)
            self.assertLessEqual(set(re.findall(r"-D (MXCHECK_\w+)", content)), options, path)
            named = set(re.findall(r"--preset (\S+)", content))
            self.assertLessEqual(named, presets, path)
            for folder in re.findall(r"/build/(\w+)", content) if named else []:
                self.assertIn(folder, named, path)


class TestPreCommit(unittest.TestCase):
    @needs_yaml
    def test_hooks_run(self):
        hooks = {hook["id"]: hook for hook in load(SOURCE / ".pre-commit-hooks.yaml")}
        with tempfile.TemporaryDirectory() as path:
            environment = Folder(path, "cpu").environment | {"PATH": f"{MXCHECK.parent}:/usr/bin:/bin"}

            def run(name, *arguments):
                command = [*shlex.split(hooks[name]["entry"]), *arguments]
                return subprocess.run(command, cwd=path, env=environment, capture_output=True, text=True, check=False)

            few = shlex.split(FEW_CASES)
            right = run("mxcheck-gate", "cpu", *few, "--record", "gate.h5")
            self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
            self.assertEqual(run("mxcheck-gate", FAULTY, *few).returncode, 1)
            self.assertEqual(run("mxcheck-gate").returncode, 2)
            self.assertEqual(run("mxcheck-replay", "gate.h5", "--without-sources").returncode, 0)
            self.assertEqual(run("mxcheck-replay", "gate.h5").returncode, 4)
        for hook in hooks.values():
            self.assertLessEqual({"id", "name", "entry", "language", "files"}, hook.keys())
            self.assertEqual((hook["language"], hook["pass_filenames"]), ("system", False))
            for name, is_source in (("kernels/quantize.cu", True), ("kernels/a.cuh", True), ("README.md", False)):
                self.assertEqual(re.search(hook["files"], name) is not None, is_source, hook["id"])


class TestPackages(unittest.TestCase):
    def test_the_dockerfile_installs_builds_and_starts_the_tool(self):
        lines = re.sub(r"^#.*\n", "", re.sub(r"\\\n\s*", " ", text("packaging/Dockerfile")), flags=re.MULTILINE)
        found = [(word, rest) for word, _, rest in (line.partition(" ") for line in lines.splitlines() if line)]
        self.assertEqual(found[0], ("FROM", "debian:12-slim AS build"))
        self.assertLessEqual({word for word, _ in found}, {"FROM", "COPY", "RUN", "ENV", "WORKDIR", "ENTRYPOINT", "CMD"})
        self.assertEqual(json.loads(dict(found)["ENTRYPOINT"]), ["mxcheck"])
        prefix = re.search(r"--install \S+ --prefix (\S+)", lines)[1]
        self.assertIn(("COPY", f"--from=build {prefix} {prefix}"), found)
        self.assertIn(f"PATH={prefix}/bin:$PATH", lines)
        for word, rest in found:
            if word == "COPY" and not rest.startswith("--from="):
                self.assertTrue((SOURCE / rest.split()[0]).exists(), rest)
            if word == "RUN":
                self.assertEqual(subprocess.run(["sh", "-n"], input=rest, text=True, check=False).returncode, 0, rest)
        # The first RUN, with an apt-get that prints its arguments and this checkout in place of the copied file.
        script = next(rest for word, rest in found if word == "RUN").replace("/source/", f"{SOURCE}/")
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(path, "cpu")
            (folder.refusing / "apt-get").write_text('#!/bin/sh\necho "$*"\n')
            answer = folder.shell(script, {})
        self.assertEqual(set(answer.stdout.splitlines()[-1].split()), packages() | {"install", "-y", "--no-install-recommends"})

    def test_the_conda_recipe_has_each_package(self):
        recipe = text("packaging/conda/recipe.yaml")
        stands_for = re.findall(r"^    - \S.*  # (\S+)$", recipe, re.MULTILINE)
        not_needed = re.search(r"# Not needed .*:\n\s*# (.*)\n", recipe)[1].split()
        self.assertEqual(sorted(stands_for + not_needed), sorted(packages()))

    @needs_yaml
    def test_the_conda_recipe_is_whole_and_its_test_runs(self):
        recipe = load(SOURCE / "packaging/conda/recipe.yaml")
        self.assertEqual((recipe["schema_version"], recipe["context"]["version"]), (1, version()))
        self.assertLessEqual({"package", "source", "build", "requirements", "tests", "about"}, recipe.keys())
        with tempfile.TemporaryDirectory() as path:
            for command in recipe["tests"][0]["script"]:
                answer = Folder(tempfile.mkdtemp(dir=path), "cpu").shell(command, {})
                self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)


def version():
    return re.search(r"project\([^)]*\bVERSION (\S+)", text("CMakeLists.txt"))[1]


class TestRelease(unittest.TestCase):
    def releases(self):
        return re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE)

    def test_the_newest_release_is_the_version_of_the_project(self):
        self.assertEqual(self.releases()[0][0], version())
        self.assertLess(text("CHANGELOG.md").index("\n## Unreleased\n"), text("CHANGELOG.md").index(f"\n## {version()} "))

    def test_links_of_the_changelog_lead_to_files(self):
        for target in re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", text("CHANGELOG.md")):
            self.assertTrue((SOURCE / target).exists(), target)

    @needs_yaml
    def test_the_citation_is_whole_and_of_this_release(self):
        citation = load(SOURCE / "CITATION.cff")
        self.assertLessEqual({"cff-version", "message", "title", "authors"}, citation.keys())
        self.assertEqual(citation["cff-version"], "1.2.0")
        self.assertTrue(citation["authors"] and all("name" in a or "family-names" in a for a in citation["authors"]))
        self.assertEqual((citation["version"], citation["date-released"]), self.releases()[0])
        self.assertEqual(citation["type"], "software")


class TestIssueForms(unittest.TestCase):
    REQUIRED = {
        "markdown": {"value"},
        "input": {"label"},
        "textarea": {"label"},
        "dropdown": {"label", "options"},
        "checkboxes": {"label", "options"},
    }

    @needs_yaml
    def test_forms_have_the_keys_that_github_requires(self):
        forms = {file.name: load(file) for file in ISSUES.glob("*.yml") if file.name != "config.yml"}
        self.assertEqual(set(forms), {"wrong_verdict.yml", "false_alarm.yml", "crash.yml", "question.yml"})
        for name, form in forms.items():
            self.assertLessEqual({"name", "description", "body"}, form.keys(), name)
            self.assertLessEqual(form.keys(), {"name", "description", "body", "labels", "title", "assignees", "projects", "type"}, name)
            fields = [part for part in form["body"] if part["type"] != "markdown"]
            self.assertTrue(fields, name)
            for key, values in (("id", [f["id"] for f in fields]), ("label", [f["attributes"]["label"] for f in fields])):
                self.assertEqual(len(values), len(set(values)), f"{name}: {key}")
            for part in form["body"]:
                self.assertLessEqual(part.keys(), {"type", "id", "attributes", "validations"}, name)
                self.assertLessEqual(self.REQUIRED[part["type"]], part["attributes"].keys(), name)
                self.assertTrue(all(isinstance(value, (str, list)) and value for value in part["attributes"].values()), name)
                self.assertRegex(part.get("id", "a"), r"^[A-Za-z0-9_-]+$")
                self.assertLessEqual(part.get("validations", {}).keys(), {"required"}, name)
        self.assertEqual(len({form["name"] for form in forms.values()}), len(forms))
        self.assertEqual(load(ISSUES / "config.yml").keys() - {"blank_issues_enabled", "contact_links"}, set())

    @needs_yaml
    def test_reports_of_verdicts_ask_for_what_reproduces_them(self):
        for name in ("wrong_verdict.yml", "false_alarm.yml"):
            fields = {part["id"]: part for part in load(ISSUES / name)["body"]}
            self.assertIn("--reproduce", fields["reproduce"]["attributes"]["placeholder"])
            self.assertIn("mxcheck --version", fields["version"]["attributes"]["label"])
            self.assertIn("safetensors", fields["files"]["attributes"]["description"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
