#pragma once
// The errors of ranks, and this process's place among them, read from the environment that a launcher makes:
//
//   launcher        rank                   ranks                  on this host                 rank 0 is at
//   torchrun, ours  RANK                   WORLD_SIZE             LOCAL_RANK                   MASTER_ADDR, MASTER_PORT
//   mpirun          OMPI_COMM_WORLD_RANK   OMPI_COMM_WORLD_SIZE   OMPI_COMM_WORLD_LOCAL_RANK   the same
//   mpiexec (PMI)   PMI_RANK               PMI_SIZE               MPI_LOCALRANKID              the same
//   srun            SLURM_PROCID           SLURM_NTASKS           SLURM_LOCALID                the same
//
// The first row whose rank is set counts; srun's only in a step that srun has started: the script of sbatch has
// SLURM_PROCID too, and is no rank. Without MASTER_ADDR all ranks must be on this host (mpirun says so by
// OMPI_COMM_WORLD_LOCAL_SIZE, srun by SLURM_NNODES): the address is then 127.0.0.1. Without MASTER_PORT the port is
// made from the job's number. Where torchrun's agent listens at MASTER_PORT itself, the next port is taken.
//
// Errors: ParallelError{configuration} for a rank without a number of ranks, values that are no numbers or out of
// range, and ranks on several hosts without MASTER_ADDR.

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace mxcheck_kernels::parallel {

// ---- Errors
//
// All of kernels/parallel throw ParallelError; the program that runs the ranks turns its kinds into exit codes.

enum class Fault {
  configuration,  // the environment of the ranks, or what they were asked for: no rank has begun
  disagreement,   // ranks differ in configuration, library or data
  environment,    // the machine lacks something: NCCL, memory, a port
  rank,           // a rank ended, or did not arrive in time
};

// One line without a final full stop: what was wrong, of which rank, and what would be right.
class ParallelError : public std::runtime_error {
 public:
  ParallelError(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

// ---- Places

struct RankPlace {
  std::string launcher;  // "torchrun", "mpirun", "mpiexec", "srun"
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string address = "127.0.0.1";  // of rank 0
  int port = 29500;
};

using Environment = std::function<const char*(const char* name)>;  // std::getenv

// None: this process is no rank.
std::optional<RankPlace> find_rank(const Environment& environment);

}  // namespace mxcheck_kernels::parallel
