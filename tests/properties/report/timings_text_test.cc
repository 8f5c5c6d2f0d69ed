#include "properties/report/report.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

struct Row {
  double wall = 0;
  double cpu = 0;
};

Row row_of(const std::string& text, const std::string& name) {
  std::smatch found;
  const std::regex row("\n  " + name + " +([0-9.]+) +[0-9.]+ % +([0-9.]+) +[0-9.]+ %");
  if (!std::regex_search(text, found, row)) return {-1, -1};
  return {std::stod(found[1]), std::stod(found[2])};
}

GateReport timed_toy(int jobs, const char* only) {
  const test::Toy toy("right");
  GateOptions options = test::toy_options(only);
  options.jobs = jobs, options.timings = true;
  return run_gate(options, [](const StatementResult&, bool) {});
}

TEST(TimingsText, phases_and_idle_jobs_add_up_to_the_run) {
  for (const int jobs : {1, 2}) {
    const GateReport report = timed_toy(jobs, "quantize_*");
    ASSERT_TRUE(report.timings);
    const std::string text = timings_text(report);
    Row sum;
    for (const char* name : {"start-up", "drawing cases", "drawing tensors", "reference", "candidate calls",
                             "comparison", "shrinking", "idle", "other threads"}) {
      const Row row = row_of(text, name);
      EXPECT_GE(row.wall, 0) << name << text;
      sum.wall += row.wall, sum.cpu += row.cpu;
    }
    const Row together = row_of(text, "together");
    EXPECT_NEAR(sum.wall, together.wall, 0.06) << text;  // rounded to hundredths
    EXPECT_NEAR(sum.cpu, together.cpu, 0.06) << text;
    EXPECT_NEAR(together.wall, report.seconds * report.timings->jobs, 0.02) << text;
    EXPECT_GT(row_of(text, "candidate calls").cpu, 0) << text;
    EXPECT_GT(row_of(text, "drawing tensors").cpu, 0) << text;
    // A call counts as a thousand elements, so that 10^6 work are at most a thousand cases.
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex("% +([0-9.]+)  quantize_equals_the_reference\n"))) << text;
    EXPECT_GE(1000 * std::stod(found[1]) + 50,
              static_cast<double>(test::result_of(report, "quantize_equals_the_reference").cases))
        << text;
  }
}

TEST(TimingsText, are_measured_only_where_they_are_asked_for) {
  EXPECT_FALSE(test::run_toy("right", "quantize_equals_the_reference").timings);
}

TEST(TimingsText, a_run_is_busy_where_others_took_the_cores) {
  EXPECT_EQ(busy_text({61, 44, 72, 2}),
            "the machine was busy: 61 s of wall for 44 s of CPU on 2 cores; other processes took 72 s\n");
  EXPECT_EQ(busy_text({30, 57, 1, 2}), "");     // its own
  EXPECT_EQ(busy_text({30, 28, 2, 2}), "");     // a core was idle: nobody took it
  EXPECT_EQ(busy_text({30, 60, 200, 16}), "");  // half of the cores were
  EXPECT_EQ(busy_text({4, 1, 7, 2}), "");       // too short to judge
  EXPECT_EQ(busy_text({30, 58, 0, 2}), "");     // /proc/stat cannot be read
}

}  // namespace
}  // namespace mxcheck
