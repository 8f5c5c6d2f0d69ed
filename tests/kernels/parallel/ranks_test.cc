#include "kernels/parallel/ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace mxcheck_kernels::parallel {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<RankPlace> found_in(const Variables& variables) {
  return find_rank([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

std::string refusal_of(const Variables& variables) {
  try {
    (void)found_in(variables);
  } catch (const ParallelError& e) {
    EXPECT_EQ(e.fault(), Fault::configuration);
    return e.what();
  }
  return "nothing thrown";
}

void expect_place(const Variables& variables, const std::string& launcher, int local_rank, const std::string& address) {
  const auto place = found_in(variables);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, launcher);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, local_rank);
  EXPECT_EQ(place->address, address);
}

TEST(Ranks, a_process_without_variables_is_no_rank) {
  EXPECT_FALSE(found_in({}));
  EXPECT_FALSE(found_in({{"RANK", ""}, {"WORLD_SIZE", "4"}}));
}

TEST(Ranks, the_script_of_sbatch_is_no_rank_of_srun) {
  Variables script{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "1"}};
  EXPECT_FALSE(found_in(script));
  for (const char* const step : {"4294967291", "4294967290", "batch", "-5", ""}) {
    script["SLURM_STEP_ID"] = step;
    EXPECT_FALSE(found_in(script)) << step;
  }
  script["SLURM_STEP_ID"] = "12";
  EXPECT_TRUE(found_in(script));
}

TEST(Ranks, torchrun_mpirun_mpiexec_and_srun_are_found) {
  expect_place({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node7"}}, "torchrun", 1,
               "node7");
  expect_place({{"OMPI_COMM_WORLD_RANK", "3"},
                {"OMPI_COMM_WORLD_SIZE", "8"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}},
               "mpirun", 3, "127.0.0.1");
  expect_place({{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"MASTER_ADDR", "a"}}, "mpiexec", 3, "a");
  expect_place({{"SLURM_STEP_ID", "0"},
                {"SLURM_PROCID", "3"},
                {"SLURM_NTASKS", "8"},
                {"SLURM_LOCALID", "0"},
                {"SLURM_NNODES", "1"}},
               "srun", 0, "127.0.0.1");
}

TEST(Ranks, the_port_is_that_of_the_environment_or_one_that_a_job_shares) {
  Variables torchrun{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29400"}};
  EXPECT_EQ(found_in(torchrun)->port, 29400);
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // torchrun itself listens there
  EXPECT_EQ(found_in(torchrun)->port, 29401);
  Variables srun{{"SLURM_STEPID", "4"},
                 {"SLURM_PROCID", "0"},
                 {"SLURM_NTASKS", "2"},
                 {"SLURM_NNODES", "1"},
                 {"SLURM_JOB_ID", "77"}};
  const int port = found_in(srun)->port;
  srun["SLURM_PROCID"] = "1";
  EXPECT_EQ(found_in(srun)->port, port);
  srun["SLURM_JOB_ID"] = "78";
  EXPECT_NE(found_in(srun)->port, port);
}

TEST(Ranks, ranks_on_several_hosts_need_the_name_of_the_first) {
  EXPECT_EQ(refusal_of({{"SLURM_STEP_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}}),
            "MASTER_ADDR is not set, and srun does not say that all ranks are on this host: set it to the name of rank "
            "0's host");
}

TEST(Ranks, wrong_numbers_are_named) {
  EXPECT_EQ(refusal_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK is '2': must be from 0 to 1");
  EXPECT_EQ(refusal_of({{"RANK", "2"}}), "WORLD_SIZE is '': must be from 1 to 4096");
  EXPECT_EQ(refusal_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), "RANK is 'x': must be from 0 to 1");
  EXPECT_EQ(refusal_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
            "MASTER_PORT is '70000': must be from 1 to 65534");
}

}  // namespace
}  // namespace mxcheck_kernels::parallel
