"""A real Slurm cluster of one machine, in a folder of its own: munged, slurmctld, and a slurmd for each node.

with Cluster(folder, nodes=3) as cluster:
    cluster.run("sbatch", "job.sh")

Nothing outside the folder is read or written, and a Slurm that runs on the machine is not met: the ports, the key and the
socket of munge are this cluster's own. It needs root, as slurmd does, and Debian's slurmctld, slurmd, slurm-client and munge.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue")
SECONDS_TO_A_DEAD_NODE = 10

CONFIGURATION = """\
ClusterName=mxcheck
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ReturnToService=2
SlurmdTimeout={seconds}
KillWait=2
MinJobAge=3600
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=1
"""


def why_not_here():
    """Why this machine cannot have a cluster; empty: it can."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"{', '.join(missing)} not installed: apt-get install --no-install-recommends slurmctld slurmd slurm-client munge"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(condition, seconds, what):
    """The first true answer of the condition."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"after {seconds} s not so: {what() if callable(what) else what}")


class Cluster:
    def __init__(self, folder, nodes):
        self.folder = Path(folder)
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.configuration = self.folder / "slurm.conf"
        self.environment = os.environ | {"SLURM_CONF": str(self.configuration), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def run(self, *command, check=True, **more):
        done = subprocess.run([str(word) for word in command], env=self.environment | more, text=True, capture_output=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "munge.seed"}
        self.run("munged", "--force", *[f"--{option}={self.folder / file}" for option, file in files.items()])
        ports = free_ports(1 + len(self.nodes))
        text = CONFIGURATION.format(host=socket.gethostname().split(".")[0], ports=ports, folder=self.folder, seconds=SECONDS_TO_A_DEAD_NODE)
        for node, port in zip(self.nodes, ports[1:]):
            text += f"NodeName={node} NodeHostname={socket.gethostname().split('.')[0]} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN\n"
        self.configuration.write_text(text + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        for node in self.nodes:
            wait_for(lambda node=node: self.state_of(node) == "IDLE", 30, lambda node=node: f"{node} is idle, but {self.state_of(node)}")

    def start_controller(self):
        self.run("slurmctld", "-f", self.configuration)
        wait_for(lambda: "UP" in self.run("scontrol", "ping", check=False), 30, "slurmctld answers")

    def stop_controller(self):
        pid = int((self.folder / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not is_running(pid), 30, "slurmctld ends")

    def start_node(self, node):
        self.run("slurmd", "-N", node, "-f", self.configuration)

    def kill_node(self, node):
        """As when a machine loses its power: the daemon and all of the node's jobs are gone at once."""
        jobs = self.processes(node)
        parents = {parent_of(pid) for pid in jobs} - set(jobs)  # slurmstepd
        kill([int((self.folder / f"slurmd-{node}.pid").read_text())] + [pid for pid in parents if pid > 1] + jobs)

    def processes(self, node=None):
        """Of jobs, on that node or on all."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            is_ours = f"SLURM_CONF={self.configuration}".encode() in variables
            name = next((v[16:].decode() for v in variables if v.startswith(b"SLURMD_NODENAME=")), None)
            if is_ours and name is not None and node in (None, name):
                found.append(int(entry.name))
        return found

    def state_of(self, node):
        text = self.run("scontrol", "--oneliner", "show", "node", node, check=False)
        return next((word[6:] for word in text.split() if word.startswith("State=")), "unknown")

    def job(self, number):
        """The fields of a job or of a task, "12_3"."""
        text = self.run("scontrol", "--oneliner", "show", "job", number)
        return dict(word.split("=", 1) for word in text.splitlines()[0].split() if "=" in word)

    def requeue(self, task):
        self.run("scontrol", "requeue", task)
        self.start_soon(task)

    def start_soon(self, task):
        """Slurm would have a job that was requeued wait for two minutes."""
        wait_for(lambda: self.job(task)["JobState"] != "COMPLETING", 30, f"{task} has ended")
        self.run("scontrol", "update", f"jobid={task}", "StartTime=now", check=False)

    def start_elsewhere(self, task, dead):
        """A task of a node that died: once Slurm knows, and at once then."""
        wait_for(lambda: "DOWN" in self.state_of(dead), 120, lambda: f"{dead} is known to be down, but {self.state_of(dead)}")
        self.start_soon(task)

    def stop(self):
        pids = self.processes()
        for name in ["slurmctld", *[f"slurmd-{node}" for node in self.nodes], "munged"]:
            file = self.folder / f"{name}.pid"
            if file.exists() and file.read_text().strip():
                pids.append(int(file.read_text()))
        parents = {parent_of(pid) for pid in self.processes()} - set(pids)
        kill([pid for pid in parents if pid > 1 and "slurmstepd" in command_of(pid)] + pids)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    wait_for(lambda: not any(map(is_running, pids)), 10, "killed processes end")
