"""examples/slurm and examples/kubernetes without a cluster: schedulers_test.py MXCHECK SOURCE_DIR FAULTY_LIBRARY

Their commands run here with the variables that a scheduler sets.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

MXCHECK, SOURCE, FAULTY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]
SLURM, JOB = SOURCE / "examples/slurm", SOURCE / "examples/kubernetes/gate_job.yaml"
RUN = {"CANDIDATE": "cpu", "SUITE": "quick", "ONLY": "scale_layout*", "SEED": "7"}
CAMPAIGN = """{"preset": "tiny", "steps": 6, "evaluate_every": 1, "validation_sequences": 1, "seeds": [1],
 "arms": [{"recipe": "mxfp8", "at": [50]}]}"""


def without_times(text):
    return re.sub(r'"seconds": [0-9.e+-]+', '"seconds": 0', text)


class Example(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.results = self.folder / "results"
        self.results.mkdir()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "JOB_"))}
        self.environment |= RUN | {"PATH": f"{MXCHECK.parent}:{os.environ['PATH']}", "RESULTS": str(self.results)}

    def run_command(self, command, code=0, **variables):
        done = subprocess.run(command, cwd=self.folder, env=self.environment | variables, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, f"{command}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def expect_the_report_of_one_run(self):
        self.run_command(["bash", SLURM / "merge.sbatch"])
        options = [word for key, value in RUN.items() for word in (f"--{key.lower()}", value)]
        self.run_command([MXCHECK, "gate", *options, "--save", "", "--report", "whole.json"])
        self.assertEqual(without_times((self.results / "merged.json").read_text()), without_times((self.folder / "whole.json").read_text()))


class Slurm(Example):
    def shard(self, task, code=0, shards=3, **variables):
        return self.run_command(["bash", SLURM / "gate.sbatch"], code, SLURM_ARRAY_TASK_ID=str(task), SHARDS=str(shards), **variables)

    def test_tasks_make_one_run_and_none_is_made_twice(self):
        for task in (1, 2, 3):
            self.assertNotIn("nothing runs again", self.shard(task))
        self.expect_the_report_of_one_run()
        before = (self.results / "2.json").read_bytes()
        self.assertIn("2.json has the finished result of this run: nothing runs again", self.shard(2))
        self.assertEqual((self.results / "2.json").read_bytes(), before)
        self.assertIn("number of shards '3' and '4'", self.shard(2, 2, shards=4))
        self.assertIn("seed '7' and '8'", self.shard(2, 2, SEED="8"))

        (self.results / "3.json").unlink()
        self.assertIn("of the shards 3 there is no report", self.run_command(["bash", SLURM / "merge.sbatch"], 4))
        (self.results / "3.json").write_bytes(before)
        self.assertIn("are both shard 2/3", self.run_command(["bash", SLURM / "merge.sbatch"], 2))
        other = before.decode().replace('"index": 2', '"index": 3').replace('"mxcheck": "', '"mxcheck": "0.0.1 or ')
        (self.results / "3.json").write_text(other)
        self.assertIn("are not of one run: mxcheck '", self.run_command(["bash", SLURM / "merge.sbatch"], 2))

    def test_a_counterexample_is_the_verdict(self):
        variables = {"CANDIDATE": FAULTY, "ONLY": "quantize_equals*", "SHARDS": "2"}
        codes = set()
        for task in (1, 2):
            done = subprocess.run(["bash", SLURM / "gate.sbatch"], cwd=self.folder, env=self.environment | variables | {"SLURM_ARRAY_TASK_ID": str(task)}, capture_output=True, check=False)
            codes.add(done.returncode)
        self.assertIn(1, codes)
        self.run_command(["bash", SLURM / "merge.sbatch"], 1)

    def test_submission_is_an_array_and_a_job_after_it(self):
        fake = self.folder / "sbatch"
        fake.write_text('#!/bin/sh\necho "$@" >> calls\nwc -l < calls\n')
        fake.chmod(0o755)
        scripts = self.folder / "scripts"
        scripts.mkdir()
        for file in SLURM.iterdir():
            (scripts / file.name).write_bytes(file.read_bytes())
        path = f"{self.folder}:{self.environment['PATH']}"
        self.assertEqual(self.run_command(["bash", scripts / "submit.sh", "gate"], PATH=path, SHARDS="40"), "array 1, verdict 2\n")
        self.assertEqual(self.run_command(["bash", scripts / "submit.sh", "parity"], PATH=path), "array 3, verdict 4\n")
        self.assertEqual(
            (scripts / "calls").read_text().splitlines(),
            ["--parsable --array=1-40 gate.sbatch", "--parsable --dependency=afterany:1 merge.sbatch", "--parsable --array=1-4 parity.sbatch", "--parsable --dependency=afterany:3 compare.sbatch"],
        )
        self.run_command(["bash", scripts / "submit.sh"], 2, PATH=path)

    def test_workers_make_a_campaign(self):
        (self.folder / "campaign.json").write_text(CAMPAIGN)
        (self.folder / "runs").mkdir()
        variables = {"CAMPAIGN": "campaign.json", "RUNS": "runs", "ENGINE": "cpu", "AT_ONCE": "1", "DATA": str(SOURCE / "docs")}
        self.assertIn("2 runs, all ended", self.run_command(["bash", SLURM / "parity.sbatch"], **variables))
        self.assertIn("2 runs, all ended; 0.0 M tokens", self.run_command(["bash", SLURM / "parity.sbatch"], **variables))
        self.run_command(["bash", SLURM / "compare.sbatch"], 4, **variables)
        self.assertIn("<html", (self.folder / "runs/verdict.html").read_text())

    def test_the_campaign_of_the_example_is_one(self):
        self.assertIn("9 runs", self.run_command([MXCHECK, "parity", "campaign", SLURM / "campaign.json", "-o", ".", "--list"]))


@unittest.skipIf(yaml is None, "python3-yaml is not installed: the job is not read")
class Kubernetes(Example):
    def test_pods_make_one_run_and_none_is_made_twice(self):
        spec = yaml.safe_load(JOB.read_text())["spec"]
        container = spec["template"]["spec"]["containers"][0]
        variables = {one["name"]: one["value"] for one in container["env"]}
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(int(variables["SHARDS"]), spec["completions"])
        command = container["command"] + container["args"]
        variables |= RUN | {"RESULTS": str(self.results)}
        for index in range(spec["completions"]):
            self.run_command(command, **variables, JOB_COMPLETION_INDEX=str(index))
        self.assertEqual({file.name for file in self.results.iterdir()}, {f"{index}.json" for index in range(spec["completions"])})
        self.assertIn("nothing runs again", self.run_command(command, **variables, JOB_COMPLETION_INDEX="1"))
        self.assertIn("shard 4, from 0, of 4 cannot be", self.run_command(command, 2, **variables, JOB_COMPLETION_INDEX="4"))
        self.expect_the_report_of_one_run()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
