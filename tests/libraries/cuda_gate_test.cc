// The gate's way with CUDA candidates, on a driver of host memory: what it must let pass, and what it must catch.

#include <fstream>
#include <set>

#include "numerics/error.h"
#include "properties/gate/gate.h"
#include "properties/gate/gpus.h"
#include "properties/records/record.h"
#include "properties/records/replay.h"
#include "properties/report/report.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/libraries/fake_cuda.h"

namespace mxcheck {
namespace {

class CudaGate : public test::FakeCuda {
 protected:
  static GateReport gate(const char* mode, const std::string& only = "*", bool record = false) {
    return FakeCuda::gate("libfake_candidate.so", mode, only, record);
  }
  // The statement that must find a library that is wrong in this way, asked alone.
  static void expect_caught(const char* mode) {
    const test::WrongLibrary wrong = test::wrong_library("cuda", mode);
    expect_found(gate(mode, wrong.found_by), wrong);
  }
};

// A recorded run of the gate on a right library. CTest runs these tests in one process, so that it is made once.
class CudaGateOnARightLibrary : public CudaGate {
 protected:
  static const GateReport& whole_run() {
    static const GateReport report = gate("", "*", true);
    return report;
  }
};

TEST_F(CudaGateOnARightLibrary, holds_and_says_what_it_ran_on) {
  const GateReport& report = whole_run();
  EXPECT_EQ(exit_code(report), 0) << found(report);
  ASSERT_FALSE(report.candidate.device.empty());
  EXPECT_EQ(report.candidate.device[0].second, "Fake GPU");
  bool streams = false;
  for (const StatementResult& r : report.statements) {
    streams = streams || (r.statement->name == "the_stream_changes_nothing" && r.cases > 0);
    EXPECT_NE(r.statement->name, "the_thread_count_changes_nothing");  // is about host libraries
  }
  EXPECT_TRUE(streams);
}

TEST_F(CudaGate, a_machine_without_a_device_is_no_fault_of_the_library) {
  setenv("FAKE_NO_DEVICE", "1", 1);
  try {
    gate("");
    FAIL() << "a gate ran";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::environment);
    EXPECT_NE(std::string(e.what()).find("there is no CUDA device"), std::string::npos) << e.what();
  }
}

TEST_F(CudaGate, a_library_that_waits_for_its_stream_is_caught) {
  setenv("FAKE_CUDA", "waits", 1);
  const GateReport report = reproduce(options("libfake_candidate.so", "*"),
                                      "the_stream_changes_nothing: op=quantize format=e4m3 recipe=rceil block=1x32 "
                                      "layout=compact x=bf16 rows=2 cols=3 data=normal seed=1");
  expect_found(report, test::wrong_library("cuda", "waits"));
}

TEST_F(CudaGate, a_library_that_allocates_when_it_is_called_is_caught) { expect_caught("allocates"); }
TEST_F(CudaGate, work_in_another_stream_is_caught) { expect_caught("uses_the_default_stream"); }
TEST_F(CudaGate, work_that_does_not_wait_for_the_inputs_is_caught) { expect_caught("does_it_at_once"); }
TEST_F(CudaGate, writing_past_the_end_is_caught) { expect_caught("writes_past_the_end"); }

TEST_F(CudaGate, writing_past_the_end_is_a_fault_between_guards) {
  const GateReport report = gate("writes_past_the_end", "nothing_is_acc*");
  EXPECT_EQ(exit_code(report), 6);
  EXPECT_NE(found(report).find("died (signal 11"), std::string::npos) << found(report);
}

TEST_F(CudaGate, a_soak_calls_in_several_streams) {
  const auto soak = [](const char* mode) {
    GateOptions o = options("libfake_candidate.so", "*");
    o.soak_minutes = 0.01, o.fail_fast = true;
    setenv("FAKE_CUDA", mode, 1);
    return run_soak(o, [](const StatementResult&, bool) {});
  };
  const GateReport right = soak("");
  EXPECT_EQ(exit_code(right), 0) << found(right);
  EXPECT_GT(right.soak->calls, 50);
  const GateReport wrong = soak("uses_the_default_stream");
  EXPECT_EQ(exit_code(wrong), 1);
  EXPECT_NE(found(wrong).find("differ"), std::string::npos) << found(wrong);
  expect_found(soak("faults"), test::wrong_library("cuda", "faults"));
}

TEST_F(CudaGate, an_error_of_the_device_ends_the_process_and_not_the_gate) { expect_caught("faults"); }
TEST_F(CudaGate, offsets_that_are_not_checked_on_the_device_are_caught) { expect_caught("trusts_offsets"); }

TEST_F(CudaGateOnARightLibrary, leaves_a_record_that_replays_without_the_driver) {
  const GateReport& report = whole_run();
  ASSERT_TRUE(report.record);
  EXPECT_EQ(report.record->candidate.sources, "00000000000000000000000000000000  tests/libraries/no_such_file.cc\n");
  const test::TemporaryDirectory dir;
  write_record(dir / "r.h5", *report.record);
  unsetenv("LD_LIBRARY_PATH");
  const Record read = read_record(dir / "r.h5");
  EXPECT_EQ(read.candidate.device[0], (std::pair<std::string, std::string>{"device", "Fake GPU"}));
  const ReplayReport replayed = replay(read, 2, [](const ReplayedStatement&) {});
  EXPECT_TRUE(replayed.equal());
  EXPECT_GT(replayed.cases(), 500);
}

// Several GPUs of one host.

class CudaGateOnGpus : public CudaGate {
 protected:
  // The report as JSON without times, which are all that may depend on the number of GPUs.
  static std::string gate_on(int gpus, const char* mode, const std::string& only, int jobs = 4) {
    setenv("FAKE_GPUS", std::to_string(gpus).c_str(), 1);
    GateOptions o = options("libfake_candidate.so", only);
    o.jobs = jobs;
    report_ = FakeCuda::gate(o, mode);
    report_.seconds = 0, report_.use = {};
    for (StatementResult& r : report_.statements) {
      r.seconds = 0;
      for (SlowCase& slow : r.slowest) slow.seconds = 0;
      r.slowest.clear();
    }
    return report_json(report_);
  }
  // The GPUs that processes of the candidate had, as the fake driver wrote them down.
  static std::set<std::string> gpus_in(const std::string& log) {
    std::ifstream file(log);
    std::set<std::string> gpus;
    for (std::string line; std::getline(file, line);) gpus.insert(line);
    return gpus;
  }
  static inline GateReport report_;
};

constexpr const char* kEquality = "quantize_equals_the_reference";
constexpr const char* kFew = "the_*";
const std::string kFirstGpu = "GPU 0 (GPU-00000000-0000-0000-0000-000000000000)";
const std::string kSecondGpu = "GPU 1 (GPU-00000000-0000-0000-0000-000000000001)";

TEST_F(CudaGateOnGpus, reports_are_the_same_on_one_two_and_four) {
  for (const char* mode : {"", "uses_the_default_stream"}) {
    const std::string one = gate_on(1, mode, kFew);
    EXPECT_FALSE(report_.statements.empty());
    EXPECT_EQ(gate_on(2, mode, kFew), one);
    EXPECT_EQ(gate_on(4, mode, kFew), one);
  }
}

TEST_F(CudaGateOnGpus, jobs_have_them_in_turn) {
  const test::TemporaryDirectory dir;
  setenv("FAKE_LOG", (dir / "one").c_str(), 1);
  gate_on(1, "", kFew);
  EXPECT_EQ(gpus_in(dir / "one"), (std::set<std::string>{"0"}));
  setenv("FAKE_LOG", (dir / "four").c_str(), 1);
  gate_on(4, "", kFew);
  EXPECT_EQ(gpus_in(dir / "four"), (std::set<std::string>{"0", "1", "2", "3"}));
  setenv("FAKE_LOG", (dir / "of_two_jobs").c_str(), 1);
  gate_on(4, "", kFew, 2);
  EXPECT_EQ(gpus_in(dir / "of_two_jobs"), (std::set<std::string>{"0", "1"}));
}

TEST_F(CudaGateOnGpus, only_the_visible_ones_that_are_like_the_first_are_used) {
  const test::TemporaryDirectory dir;
  setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
  setenv("FAKE_LOG", (dir / "visible").c_str(), 1);
  gate_on(4, "", kFew);
  EXPECT_EQ(gpus_in(dir / "visible"), (std::set<std::string>{"1", "3"}));
  unsetenv("CUDA_VISIBLE_DEVICES");
  setenv("FAKE_OTHER_MODEL", "1", 1);
  setenv("FAKE_LOG", (dir / "alike").c_str(), 1);
  gate_on(3, "", kFew);
  EXPECT_EQ(gpus_in(dir / "alike"), (std::set<std::string>{"0", "2"}));
}

TEST_F(CudaGateOnGpus, one_that_gives_other_bits_is_named) {
  setenv("FAKE_WRONG_GPU", "0", 1);
  gate_on(2, "", kEquality);
  EXPECT_EQ(exit_code(report_), 1);
  EXPECT_NE(found(report_).find("; on " + kFirstGpu + ", not on " + kSecondGpu), std::string::npos) << found(report_);
  const std::string again = again_command(report_, report_.statements.front());
  EXPECT_TRUE(again.starts_with("CUDA_VISIBLE_DEVICES=GPU-00000000-0000-0000-0000-000000000000 mxcheck gate "))
      << again;
}

TEST_F(CudaGateOnGpus, one_that_fails_is_named) {
  setenv("FAKE_FAULTY_GPU", "0", 1);
  gate_on(2, "", kEquality);
  EXPECT_EQ(exit_code(report_), 6);
  EXPECT_NE(found(report_).find("; on " + kFirstGpu + ", not on " + kSecondGpu), std::string::npos) << found(report_);
}

TEST_F(CudaGateOnGpus, a_fault_of_the_library_names_none) {
  gate_on(2, "faults", kEquality);
  EXPECT_EQ(exit_code(report_), 6);
  EXPECT_EQ(found(report_).find("GPU"), std::string::npos) << found(report_);
}

TEST_F(CudaGateOnGpus, a_soak_names_the_one_that_gives_other_bits) {
  setenv("FAKE_WRONG_GPU", "1", 1), setenv("FAKE_GPUS", "2", 1);
  GateOptions o = options("libfake_candidate.so", "*");
  o.soak_minutes = 0.02, o.jobs = 2;
  const GateReport soak = run_soak(o, [](const StatementResult&, bool) {});
  EXPECT_EQ(exit_code(soak), 1);
  EXPECT_NE(found(soak).find("on " + kSecondGpu), std::string::npos) << found(soak);
}

TEST_F(CudaGateOnGpus, bad_ends_are_told_once_and_with_a_gpu_where_they_are_not_of_all) {
  const std::vector<Gpu> two{{0, "GPU-a"}, {1, "GPU-b"}};
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of_ends({{"died", 0}, {"died", 1}, {"died", 0}}, two, 4), (Texts{"died"}));
  EXPECT_EQ(texts_of_ends({{"died", 1}, {"died", 1}}, two, 4), (Texts{"died; on GPU 1 (GPU-b)"}));
  EXPECT_EQ(texts_of_ends({{"died", 0}}, two, 1), (Texts{"died"}));
  EXPECT_EQ(texts_of_ends({{"died", 0}, {"hung", 0}}, {}, 4), (Texts{"died", "hung"}));
}

// Routers: their own report of a NaN, records, replay.

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
