"""examples/slurm on a real cluster of this machine: slurm_test.py MXCHECK SOURCE_DIR

Jobs are killed and requeued, a node dies, another is drained, the controller restarts. Nothing is lost or counted twice, and
the verdict is that of one run, but for times. Ranks are those that srun starts. 77: Slurm is not installed, or this is not
root.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import Cluster, wait_for, why_not_here

MXCHECK, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
EXAMPLES = SOURCE / "examples/slurm"
SHARDS = 8
RUN = {"CANDIDATE": "cpu", "SUITE": "quick", "ONLY": "quantize_*", "SEED": "7"}
CAMPAIGN = """{"preset": "tiny", "steps": 8, "evaluate_every": 1, "validation_sequences": 2, "seeds": [1, 2],
 "arms": [{"recipe": "bf16", "perturb": "all", "at": [50]}, {"recipe": "mxfp8", "at": [50]}]}"""
PATIENCE = 240
TIMES = {"tokens_a_second", "hours", "started"}

# Stands before the tool on the PATH of the jobs: writes down each start, and waits where the test holds a task.
TOOL = """#!/bin/sh
echo "$1 ${SLURM_ARRAY_TASK_ID:-0} $SLURMD_NODENAME" >> "$JOURNAL"
while [ -e "$HOLD/$1-${SLURM_ARRAY_TASK_ID:-0}" ]; do sleep 0.1; done
exec MXCHECK "$@"
"""


def without_times(text):
    return re.sub(r'"seconds": [0-9.e+-]+', '"seconds": 0', text)


class OnACluster(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mxcheck-slurm-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("cluster", "hold", "bin", "examples", "results", "runs", "one"):
            (self.folder / name).mkdir()
        for file in EXAMPLES.iterdir():
            (self.folder / "examples" / file.name).write_bytes(file.read_bytes())
            (self.folder / "examples" / file.name).chmod(0o755)
        tool = self.folder / "bin/mxcheck"
        tool.write_text(TOOL.replace("MXCHECK", str(MXCHECK)))
        tool.chmod(0o755)
        self.journal = self.folder / "journal"
        self.journal.touch()
        self.cluster = Cluster(self.folder / "cluster", nodes=3)
        self.cluster.environment |= RUN | {
            "SHARDS": str(SHARDS), "RESULTS": str(self.folder / "results"), "JOURNAL": str(self.journal), "HOLD": str(self.folder / "hold"),
            "CAMPAIGN": str(self.folder / "campaign.json"), "RUNS": str(self.folder / "runs"), "WORKERS": "2", "DATA": str(SOURCE / "docs"),
            "PATH": f"{self.folder / 'bin'}:{self.cluster.environment['PATH']}",
        }  # fmt: skip
        self.enterContext(self.cluster)

    def enterContext(self, manager):  # of unittest from Python 3.11 on
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def submit(self, what):
        answer = self.cluster.run(self.folder / "examples/submit.sh", what)
        return re.fullmatch(r"array (\d+), verdict (\d+)", answer).groups()

    def hold(self, what, tasks):
        for task in tasks:
            (self.folder / "hold" / f"{what}-{task}").touch()

    def release(self, what, tasks):
        for task in tasks:
            (self.folder / "hold" / f"{what}-{task}").unlink()

    def starts(self, what, task=None):
        """The nodes on which a task was started, in order."""
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        return [node for word, number, node in lines if word == what and task in (None, int(number))]

    def started(self, what, task, times=1):
        """The node of the last start."""
        wait_for(lambda: len(self.starts(what, task)) >= times, PATIENCE, lambda: f"{what} {task} starts {times} times\n{self.status()}")
        return self.starts(what, task)[-1]

    def ended(self, job):
        wait_for(lambda: self.cluster.job(job)["JobState"] in ("COMPLETED", "FAILED", "CANCELLED"), PATIENCE, lambda: f"job {job} ends\n{self.status()}")
        return self.cluster.job(job)["ExitCode"]

    def status(self):
        logs = [f"{log.name}: {log.read_text()[-2000:]}" for log in (self.folder / "examples").glob("*.log")]
        return "\n".join([self.cluster.run("squeue", "-r", check=False), self.cluster.run("sinfo", "-N", check=False), self.journal.read_text(), *logs])

    def result(self, shard):
        return self.folder / "results" / f"{shard}.json"

    def expect_the_verdict_of_one_run(self):
        merged = self.folder / "results/merged.json"
        whole = self.folder / "one/whole.json"
        if not whole.exists():
            options = [word for key, value in RUN.items() for word in (f"--{key.lower()}", value)]
            subprocess.run([MXCHECK, "gate", *options, "--save", "", "--report", whole], check=True, capture_output=True)
        self.assertEqual(without_times(merged.read_text()), without_times(whole.read_text()))
        self.assertEqual({file.name for file in self.folder.glob("results/[0-9]*")}, {f"{shard}.json" for shard in range(1, SHARDS + 1)})


class Gate(OnACluster):
    def test_what_is_killed_or_dies_is_run_again_and_nothing_else(self):
        everything = range(1, SHARDS + 1)
        self.hold("gate", everything)
        array, verdict = self.submit("gate")

        # The first ends. Started again, it says so and runs nothing; the result stays as it was.
        first_node = self.started("gate", 1)
        self.release("gate", [1])
        wait_for(self.result(1).exists, PATIENCE, lambda: "the first shard has a result\n" + self.status())
        wait_for(lambda: self.cluster.job(f"{array}_1")["JobState"] == "COMPLETED", PATIENCE, "the first task has ended")
        result = self.result(1).read_bytes()
        self.cluster.run("scontrol", "requeue", f"{array}_1")
        self.cluster.start_soon(f"{array}_1")

        # The second is killed in the middle of its work, and requeued.
        self.started("gate", 2)
        self.release("gate", [2])
        self.cluster.requeue(f"{array}_2")

        # The node of the third dies.
        dead = self.started("gate", 3)
        self.cluster.kill_node(dead)
        self.release("gate", [3])

        # A node is drained: what it is at ends, and nothing else begins there.
        drained = next(node for node in self.cluster.nodes if node != dead)
        self.cluster.run("scontrol", "update", f"nodename={drained}", "state=drain", "reason=test")
        allowed = set(self.cluster.run("squeue", "-r", "-h", "-w", drained, "-o", "%K").split())
        before = len(self.journal.read_text().splitlines())

        # The controller restarts while tasks run and wait.
        self.cluster.stop_controller()
        self.release("gate", [4, 5])
        self.cluster.start_controller()
        self.release("gate", [6, 7, 8])
        self.cluster.start_elsewhere(f"{array}_3", dead)
        self.started("gate", 3, times=2)

        self.assertEqual(self.ended(verdict), "0:0", self.status())
        self.expect_the_verdict_of_one_run()
        self.assertEqual(self.result(1).read_bytes(), result)
        log = (self.folder / f"examples/mxcheck-gate-{array}_1.log").read_text()
        self.assertEqual(log.count("1.json has the finished result of this run: nothing runs again"), 1, log)
        starts = {task: len(self.starts("gate", task)) for task in everything}
        self.assertEqual(starts, {1: 2, 2: 2, 3: 2} | dict.fromkeys(range(4, SHARDS + 1), 1))
        self.assertIn("DUE TO JOB REQUEUE", (self.folder / f"examples/mxcheck-gate-{array}_2.log").read_text())
        later = [line.split() for line in self.journal.read_text().splitlines()[before:]]
        self.assertLessEqual({task for what, task, node in later if what == "gate" and node == drained}, allowed)
        self.assertNotEqual(self.starts("gate", 3)[1], dead)
        self.assertIn(first_node, self.cluster.nodes)

        # A result is lost: submitted again, its shard alone runs, and the verdict is the same.
        self.cluster.run("scontrol", "update", f"nodename={drained}", "state=resume")
        self.result(5).unlink()
        others = {shard: self.result(shard).read_bytes() for shard in everything if shard != 5}
        array, verdict = self.submit("gate")
        self.assertEqual(self.ended(verdict), "0:0", self.status())
        self.expect_the_verdict_of_one_run()
        for shard, bytes_before in others.items():
            self.assertEqual(self.result(shard).read_bytes(), bytes_before, shard)
            self.assertIn("nothing runs again", (self.folder / f"examples/mxcheck-gate-{array}_{shard}.log").read_text())
        self.assertNotIn("nothing runs again", (self.folder / f"examples/mxcheck-gate-{array}_5.log").read_text())

        # Of another run, no result is taken for this one.
        array, verdict = self.submit_with(SEED="8")
        self.assertEqual(self.ended(verdict), "0:0", "the results are those of the run before")
        self.assertEqual(self.cluster.job(f"{array}_1")["ExitCode"], "2:0")
        self.assertIn("not of one run: seed '7' and '8'", (self.folder / f"examples/mxcheck-gate-{array}_1.log").read_text())

    def submit_with(self, **variables):
        self.cluster.environment |= variables
        return self.submit("gate")


class Parity(OnACluster):
    def test_runs_of_a_campaign_are_made_once_whoever_dies(self):
        (self.folder / "campaign.json").write_text(CAMPAIGN)
        one = self.folder / "one"
        command = [MXCHECK, "parity", "campaign", self.folder / "campaign.json", "--data", SOURCE / "docs", "--output"]
        subprocess.run([*command, one], check=True, capture_output=True)
        array, verdict = self.submit("parity")
        wait_for(lambda: list(self.folder.glob("runs/*.journal")), PATIENCE, lambda: "a run has begun\n" + self.status())
        self.cluster.requeue(f"{array}_1")
        dead = self.started("parity", 2)
        self.cluster.kill_node(dead)
        self.cluster.start_elsewhere(f"{array}_2", dead)
        self.assertIn(self.ended(verdict), ("4:0", "1:0", "0:0"), self.status())
        self.assertEqual(len(self.starts("parity", 1)), 2)
        self.assertEqual(self.verdict_of("runs"), self.verdict_of("one"))
        names = {file.name for file in one.glob("*.h5")}
        self.assertEqual(len(names), 6)
        self.assertEqual({file.name for file in self.folder.glob("runs/[a-z]*") if file.suffix != ".html"}, names)

    def verdict_of(self, folder):
        runs = sorted(str(file.relative_to(self.folder)) for file in self.folder.glob(f"{folder}/*.h5"))
        done = subprocess.run([MXCHECK, "parity", "compare", *runs, "--json"], cwd=self.folder, text=True, capture_output=True, check=False)
        verdict = json.loads(done.stdout.replace(f"{folder}/", ""), object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k not in TIMES})
        verdict["runs"].sort(key=lambda run: run["file"])  # they are listed by when they began
        return done.returncode, verdict


class Ranks(OnACluster):
    def test_steps_of_srun_are_ranks_and_the_script_of_sbatch_is_none(self):
        script = self.folder / "ranks.sbatch"
        layer = f"{MXCHECK} parallel layer"
        script.write_text(f"#!/bin/sh\n{layer} --ranks 3 && {layer} && MASTER_ADDR=127.0.0.1 srun {layer}\n")
        out = self.folder / "ranks.log"
        job = self.cluster.run("sbatch", "--parsable", "--nodes=2", "--ntasks=2", f"--output={out}", script)
        self.assertEqual(self.ended(job), "0:0", out.read_text() + self.status())
        heads = [line for line in out.read_text().splitlines() if " by " in line]
        self.assertEqual(heads, [f"{ranks}; sockets; reference" for ranks in ("3 ranks by mxcheck", "1 rank by mxcheck", "2 ranks by srun")])


if __name__ == "__main__":
    if why := why_not_here():
        print(f"left out: {why}")
        sys.exit(77)
    os.environ.pop("SLURM_CONF", None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the daemons end with the test
    unittest.main(argv=sys.argv[:1])
