#include "kernels/parallel/ranks.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace mxcheck_kernels::parallel {
namespace {

constexpr int kMostRanks = 4096;
constexpr int kFirstJobPort = 20000;  // below those that hosts give to connections of any kind
constexpr int kJobPorts = 10000;

struct LauncherWords {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* job;  // a number that the ranks of a job share
};
constexpr std::array<LauncherWords, 4> kLaunchers{{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_MCA_ess_base_jobid"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_ID"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID"},
}};

bool is_set(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr && *value != '\0';
}

int number_of(const Environment& environment, const char* name, int low, int high) {
  const char* const text = environment(name);
  const std::string_view value = text == nullptr ? "" : text;
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = error == std::errc() && end == value.data() + value.size() && !value.empty();
  if (is_number && number >= low && number <= high) return number;
  throw ParallelError(Fault::configuration, std::string(name) + " is '" + std::string(value) + "': must be from " +
                                                std::to_string(low) + " to " + std::to_string(high));
}

// One host, as far as the launcher tells.
bool on_one_host(const Environment& environment, const RankPlace& place) {
  if (place.ranks == 1) return true;
  if (place.launcher == "mpirun" && is_set(environment, "OMPI_COMM_WORLD_LOCAL_SIZE")) {
    return number_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks) == place.ranks;
  }
  if (place.launcher == "mpiexec" && is_set(environment, "MPI_LOCALNRANKS")) {
    return number_of(environment, "MPI_LOCALNRANKS", 1, kMostRanks) == place.ranks;
  }
  if (place.launcher == "srun" && is_set(environment, "SLURM_NNODES")) {
    return number_of(environment, "SLURM_NNODES", 1, kMostRanks) == 1;
  }
  return false;
}

int job_port(const Environment& environment, const char* job) {
  unsigned hash = 2166136261U;  // FNV-1a
  for (const char c : std::string_view(is_set(environment, job) ? environment(job) : "")) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return kFirstJobPort + static_cast<int>(hash % kJobPorts);
}

// Steps that srun starts are numbered from 0; sbatch's script and an interactive shell of salloc have no number, or one
// of Slurm's own, from 0xfffffff0 on (slurm.h: SLURM_BATCH_SCRIPT and others).
bool in_step_of_srun(const Environment& environment) {
  constexpr std::int64_t kFirstOfSlurm = 0xFFFFFFF0;
  const char* const name = is_set(environment, "SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  if (!is_set(environment, name)) return false;
  const std::string_view text = environment(name);
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size() && step >= 0 && step < kFirstOfSlurm;
}

}  // namespace

std::optional<RankPlace> find_rank(const Environment& environment) {
  for (const LauncherWords& words : kLaunchers) {
    if (!is_set(environment, words.rank)) continue;
    if (std::strcmp(words.launcher, "srun") == 0 && !in_step_of_srun(environment)) continue;
    RankPlace place;
    place.launcher = words.launcher;
    place.ranks = number_of(environment, words.ranks, 1, kMostRanks);
    place.rank = number_of(environment, words.rank, 0, place.ranks - 1);
    place.local_rank = is_set(environment, words.local_rank)
                           ? number_of(environment, words.local_rank, 0, kMostRanks - 1)
                           : place.rank;
    if (is_set(environment, "MASTER_ADDR")) {
      place.address = environment("MASTER_ADDR");
    } else if (!on_one_host(environment, place)) {
      throw ParallelError(Fault::configuration,
                          std::string("MASTER_ADDR is not set, and ") + words.launcher +
                              " does not say that all ranks are on this host: set it to the name of rank 0's host");
    }
    place.port = is_set(environment, "MASTER_PORT") ? number_of(environment, "MASTER_PORT", 1, 65534)
                                                    : job_port(environment, words.job);
    const char* const agent = environment("TORCHELASTIC_USE_AGENT_STORE");
    if (agent != nullptr && std::strcmp(agent, "True") == 0) ++place.port;  // its store has the other
    return place;
  }
  return std::nullopt;
}

}  // namespace mxcheck_kernels::parallel
