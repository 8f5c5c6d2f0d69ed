#!/bin/bash
# usage: submit.sh gate|parity
#
# Submits a campaign from this folder: an array of jobs, and a job that waits for all of them, however they ended, and makes
# the verdict. What the jobs read comes from the environment; without it, a small run of the CPU library, and a campaign of the
# tiny model. Submitted again with the same folder of results, it goes on with what is missing.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

# The gate. Another library, seed or suite needs another folder: a shard refuses the result of another run.
export CANDIDATE=${CANDIDATE:-cpu} SUITE=${SUITE:-quick} ONLY=${ONLY:-*} SEED=${SEED:-7}
export SHARDS=${SHARDS:-16} RESULTS=${RESULTS:-$PWD/results}
# The parity campaign.
export CAMPAIGN=${CAMPAIGN:-$PWD/campaign.json} RUNS=${RUNS:-$PWD/runs} ENGINE=${ENGINE:-cpu} AT_ONCE=${AT_ONCE:-1}
export WORKERS=${WORKERS:-4} DATA=${DATA:-}

case ${1:-} in
  gate)
    mkdir -p -- "$RESULTS"
    array=$(sbatch --parsable --array="1-$SHARDS" gate.sbatch)
    verdict=$(sbatch --parsable --dependency="afterany:$array" merge.sbatch)
    ;;
  parity)
    mkdir -p -- "$RUNS"
    array=$(sbatch --parsable --array="1-$WORKERS" parity.sbatch)
    verdict=$(sbatch --parsable --dependency="afterany:$array" compare.sbatch)
    ;;
  *)
    echo "usage: submit.sh gate|parity" >&2
    exit 2
    ;;
esac
echo "array $array, verdict $verdict"
