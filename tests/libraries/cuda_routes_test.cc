// The gate's way with a CUDA library's routers, on a driver of host memory: its own report of a NaN, records, replay.

#include "properties/records/record.h"
#include "properties/records/replay.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/libraries/fake_cuda.h"

namespace mxcheck {
namespace {

constexpr const char* kRefusal = "a_nan_logit_is_refused_and_nothing_is_written";

class CudaRoutes : public test::FakeCuda {
 protected:
  static GateReport gate(const char* mode, const std::string& only, bool record = false) {
    return FakeCuda::gate("libfake_route.so", mode, only, record);
  }
  static void expect_caught(const char* mode) {
    const test::WrongLibrary wrong = test::wrong_library("cuda_route", mode);
    expect_found(gate(mode, wrong.found_by), wrong);
  }
};

TEST_F(CudaRoutes, the_reference_as_a_kernel_holds_and_its_record_is_replayed) {
  for (const char* only : {"rout*", "*_token*", kRefusal, "the_s*"}) {
    const GateReport report = gate("", only, true);
    EXPECT_EQ(exit_code(report), 0) << only << ": " << found(report);
    const test::TemporaryDirectory dir;
    write_record(dir / "routes.h5", *report.record);
    const Record record = read_record(dir / "routes.h5");
    EXPECT_GT(record.cases.size(), 30U);
    const ReplayReport replayed = replay(record, 2, [](const ReplayedStatement&) {});
    EXPECT_TRUE(replayed.equal()) << only;
    EXPECT_EQ(replayed.cases(), static_cast<std::int64_t>(record.cases.size()));
  }
}

TEST_F(CudaRoutes, a_changed_digest_is_found_by_replay) {
  Record record = *gate("", "route_equals_the_reference", true).record;
  for (RecordedCase& c : record.cases) {
    if (c.calls.empty() || c.calls[0].outputs.empty()) continue;
    c.calls[0].outputs[0][3] ^= 1;
    break;
  }
  EXPECT_FALSE(replay(record, 2, [](const ReplayedStatement&) {}).equal());
}

TEST_F(CudaRoutes, a_refusal_that_is_none_is_found) { expect_caught("says_nothing"); }
TEST_F(CudaRoutes, a_refusal_that_names_another_place_is_found) { expect_caught("another_place"); }
TEST_F(CudaRoutes, a_refusal_that_wrote_before_is_found) { expect_caught("writes_before_it_refuses"); }

}  // namespace
}  // namespace mxcheck
