// Runs at once in one process: the bits of runs alone, and one's failure is no other's.

#include "trainer/run/together.h"

#include <gtest/gtest.h>

#include <fstream>

#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/trainer/run_fixture.h"
#include "trainer/record/run_file.h"

namespace mxcheck {
namespace {

RunInCompany one(const std::string& out, const Corpus& corpus, std::uint64_t seed) {
  RunInCompany one{test::small_request(out, corpus), nullptr};
  one.request.config.seed = seed;
  one.request.plan.kept = {3};
  one.engine = cpu_engine(one.request.config, 1);
  return one;
}

TEST(RunTogether, has_the_bits_of_runs_alone_whatever_becomes_of_the_others) {
  const test::TemporaryDirectory dir;
  const Corpus corpus = test::small_corpus();
  const RunInCompany alone = one(dir / "alone.h5", corpus, 2);
  const RunRecord expected = run_training(alone.request, *alone.engine, {});
  std::ofstream(dir / "fails.h5") << "is there";
  std::vector<RunInCompany> runs;
  runs.push_back(one(dir / "fails.h5", corpus, 1));
  for (const std::uint64_t seed : {2U, 3U, 4U}) {
    runs.push_back(one(dir / ("run_" + std::to_string(seed) + ".h5"), corpus, seed));
  }
  const std::vector<RunInCompanyEnd> ends = run_together(runs, {});
  ASSERT_EQ(ends.size(), 4U);
  try {
    ASSERT_TRUE(ends[0].error != nullptr);
    std::rethrow_exception(ends[0].error);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("fails.h5: is there already"), std::string::npos) << e.what();
  }
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(ends[i].error == nullptr && ends[i].record.config.seed == i + 1) << i;
  EXPECT_EQ(ends[1].record.steps, expected.steps);
  EXPECT_EQ(read_run(dir / "run_2.h5").steps, expected.steps);
  EXPECT_EQ(read_run(dir / "run_2.h5").witnesses, expected.witnesses);
  for (const char* name : {"run_3.h5", "run_4.h5"}) EXPECT_EQ(read_run(dir / name).end, RunEnd::finished);
}

}  // namespace
}  // namespace mxcheck
