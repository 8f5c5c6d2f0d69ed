#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "properties/process/candidate_process.h"
#include "properties/process/contain.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

// A variable of the environment, as it was afterwards.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

bool has(const Launch& launch, const std::string& entry) {
  return std::find(launch.environment.begin(), launch.environment.end(), entry) != launch.environment.end();
}

class OfPython : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"build", "build/release", "build/release/bin", "python", "python/mxcheck"})
      fs::create_directory(dir_ / folder);
    test::write_file(dir_ / "build/release/bin/libmxcheck_worker.so", "");
  }
  [[nodiscard]] std::string tool() const { return dir_ / "build/release/bin/mxcheck"; }
  test::TemporaryDirectory dir_;
};

TEST(Launch, of_a_library_is_the_tool_without_our_variables) {
  const Variable ours("MXCHECK_C_LIBRARY", "/some/lib.so");
  const Variable theirs("THEIRS", "1");
  const Launch launch = launch_of("/bin/mxcheck", "/lib/libmine.so", 5, 6, "model");
  EXPECT_EQ(launch.program, "/bin/mxcheck");
  EXPECT_EQ(launch.arguments,
            (std::vector<std::string>{"/bin/mxcheck", "__worker", "/lib/libmine.so", "5", "6", "model"}));
  EXPECT_TRUE(has(launch, "THEIRS=1"));
  EXPECT_FALSE(has(launch, "MXCHECK_C_LIBRARY=/some/lib.so"));
}

TEST(Launch, on_a_gpu_sees_that_one_alone) {
  const Variable visible("CUDA_VISIBLE_DEVICES", "2,3");
  EXPECT_TRUE(has(launch_of("/bin/mxcheck", "/lib/libmine.so", 5, 6, ""), "CUDA_VISIBLE_DEVICES=2,3"));
  const Launch on_one = launch_of("/bin/mxcheck", "/lib/libmine.so", 5, 6, "", "GPU-1");
  EXPECT_TRUE(has(on_one, "CUDA_VISIBLE_DEVICES=GPU-1"));
  EXPECT_FALSE(has(on_one, "CUDA_VISIBLE_DEVICES=2,3"));
}

TEST_F(OfPython, is_the_interpreter_with_the_worker) {
  const Variable python("MXCHECK_PYTHON", "/opt/python");
  const Variable library("MXCHECK_C_LIBRARY", "/some/lib.so");
  const Variable path("PYTHONPATH", "/mine");
  const Launch launch = launch_of(tool(), "python:kernels:quantize@2", 5, 6, "");
  const std::string worker = fs::canonical(dir_ / "build/release/bin/libmxcheck_worker.so");
  EXPECT_EQ(launch.program, "/opt/python");
  EXPECT_EQ(launch.arguments, (std::vector<std::string>{"/opt/python", "-m", "mxcheck._worker", worker,
                                                        "kernels:quantize@2", "5", "6", ""}));
  EXPECT_TRUE(has(launch, "MXCHECK_C_LIBRARY=/some/lib.so"));
  EXPECT_FALSE(has(launch, "MXCHECK_PYTHON=/opt/python"));
  EXPECT_TRUE(has(launch, "PYTHONPATH=/mine"));
}

TEST_F(OfPython, has_the_package_of_the_checkout_behind_the_users_path) {
  const Variable path("PYTHONPATH", "/mine");
  test::write_file(dir_ / "python/mxcheck/_worker.py", "");
  const Launch launch = launch_of(tool(), "python:kernels:quantize", 5, 6, "");
  EXPECT_TRUE(has(launch, "PYTHONPATH=/mine:" + fs::canonical(dir_ / "python").string()));
}

TEST_F(OfPython, has_the_packages_library_that_lies_beside_the_worker) {
  unsetenv("MXCHECK_C_LIBRARY");
  const std::string beside = fs::canonical(dir_ / "build/release/bin").string() + "/libmxcheck_c.so";
  EXPECT_FALSE(has(launch_of(tool(), "python:kernels:quantize", 5, 6, ""), "MXCHECK_C_LIBRARY=" + beside));
  test::write_file(beside, "");
  EXPECT_TRUE(has(launch_of(tool(), "python:kernels:quantize", 5, 6, ""), "MXCHECK_C_LIBRARY=" + beside));
}

TEST_F(OfPython, needs_the_worker_beside_the_tool) {
  fs::remove(dir_ / "build/release/bin/libmxcheck_worker.so");
  test::expect_error(ErrorKind::usage, "libmxcheck_worker.so is not beside mxcheck; ./run build mxcheck_worker",
                     [&] { (void)launch_of(tool(), "python:kernels:quantize", 5, 6, ""); });
}

TEST(Launch, an_early_end_is_told_by_its_cause) {
  const Launch python{"/opt/python", {}, {}};
  EXPECT_NE(early_end(python, "python:a:b", 127 << 8).find("/opt/python cannot be started"), std::string::npos);
  EXPECT_NE(early_end(python, "python:a:b", 9 << 8).find("status 9 while it was imported"), std::string::npos);
  EXPECT_EQ(early_end(python, "python:a:b", 11), "crashed while it was loaded (signal 11)");
}

}  // namespace

// Where libraries are looked for.

namespace {

namespace fs = std::filesystem;

class Installed : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"bin", "lib"}) fs::create_directory(dir_ / folder);
  }
  std::string put(const std::string& name) {
    test::write_file(dir_ / name, "");
    return fs::canonical(dir_ / name).string();
  }
  [[nodiscard]] std::string tool() const { return dir_ / "bin/mxcheck"; }
  test::TemporaryDirectory dir_;
};

TEST_F(Installed, a_folder_is_refused_with_the_libraries_in_it) {
  const auto expect_refused = [&](const std::string& name, const std::string& text) {
    test::expect_error(ErrorKind::usage, text, [&] { (void)find_candidate_library(name, tool()); });
  };
  put("lib/libb.so"), put("lib/liba.so");
  expect_refused(dir_ / "lib",
                 "/lib is a folder: name the library itself, as ./libmine.so; in it are liba.so, libb.so");
  expect_refused(".", "candidate . is a folder: name the library itself");
  for (const char* name : {"c", "d", "e", "f"}) put(std::string("lib/lib") + name + ".so");
  expect_refused(dir_ / "lib", "; in it are liba.so, libb.so, libc.so, libd.so, libe.so, ...");
}

TEST_F(Installed, a_name_is_a_library_beside_the_tool_or_in_lib) {
  const auto expect_refused = [&](const std::string& name, const std::string& text) {
    test::expect_error(ErrorKind::usage, text, [&] { (void)find_candidate_library(name, tool()); });
  };
  const std::string searched =
      "no candidate named 'mine'; searched 7 folders beside mxcheck; give the path of a shared library, as "
      "./libmine.so, or "
      "python:MODULE:NAME";
  expect_refused("mine", searched);
  put("lib/libmxcheck_mien.so");
  expect_refused("mine", searched + "; did you mean 'mien'?");
  expect_refused("sm09", "; did you mean 'sm90'?");
  put("lib/libmxcheck_worker.so");
  try {
    (void)find_candidate_library("werker", tool());
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find("did you mean"), std::string::npos) << "a library that is no candidate";
  }
  for (const char* name : {"cpu", "sm90", "sm90_gemm", "sm100_emulated"})
    expect_refused(name, std::string("./run build mxcheck_") + name);
  expect_refused("sm100_emulated", "libmxcheck_sm100_emulated.so is not beside mxcheck; ./run build");
  const std::string in_lib = put("lib/libmxcheck_mine.so");
  EXPECT_EQ(find_candidate_library("mine", tool()), in_lib);
  const std::string beside = put("bin/libmxcheck_mine.so");
  EXPECT_EQ(find_candidate_library("mine", tool()), beside);
}

TEST(CandidateLibrary, is_found_by_its_path) {
  EXPECT_EQ(find_candidate_library(MXCHECK_TOY, "/nowhere/mxcheck"), MXCHECK_TOY);
  for (const char* none : {"./none.so", "/none/none.so"}) {
    test::expect_error(ErrorKind::usage, "does not exist", [&] { (void)find_candidate_library(none, "/bin/x"); });
  }
  test::expect_error(ErrorKind::usage, "no candidate named 'gpu9'; searched 7 folders",
                     [] { (void)find_candidate_library("gpu9", "/bin/x"); });
}

TEST_F(Installed, the_gpu_model_is_where_it_is_said_to_be_or_nowhere) {
  EXPECT_EQ(find_gpu_model("", tool()).first, "");
  const std::string found = put("lib/libmxcheck_gpu_model.so");
  EXPECT_EQ(find_gpu_model("", tool()), std::pair(found, std::string()));
  const std::string own = put("lib/own.so");
  EXPECT_EQ(find_gpu_model(own, tool()).first, own);
  const auto [path, why] = find_gpu_model("/nowhere/own.so", tool());
  EXPECT_EQ(path, "");  // what is asked for by name is not replaced
  EXPECT_EQ(why, "there is no library of the GPU model; looked for /nowhere/own.so");
}

TEST(Machine, cpu_seconds_grow_with_work_and_the_machines_are_at_least_ones_own) {
  const CpuSeconds before = cpu_seconds();
  volatile double x = 1;
  CpuSeconds now = before;
  while (now.own - before.own < 0.2) {
    for (int i = 0; i < 1'000'000; ++i) x = x * 1.0000001;
    now = cpu_seconds();
  }
  if (now.machine == 0) GTEST_SKIP() << "no /proc/stat";
  EXPECT_GE(now.machine - before.machine, 0.1);  // in ticks of a hundredth of a second
}

TEST(Machine, names_build_processor_system_and_the_device_that_was_used) {
  CandidateInfo candidate;
  const auto pairs = build_and_machine(candidate);
  std::map<std::string, std::string> all(pairs.begin(), pairs.end());
  EXPECT_EQ(all.size(), 5U);
  EXPECT_NE(all["mxcheck"].find(" commit "), std::string::npos) << all["mxcheck"];
  EXPECT_NE(all["compiler"], "");
  EXPECT_NE(all["cpu"].find(" cores"), std::string::npos) << all["cpu"];
  EXPECT_NE(all["system"].find("Linux"), std::string::npos) << all["system"];
  EXPECT_EQ(all["gpu"], "none used");

  candidate.device = {{"device", "Fake GPU"}, {"driver", "CUDA 13.0"}};
  EXPECT_EQ(build_and_machine(candidate).back().second, "Fake GPU, driver CUDA 13.0");
}

}  // namespace

namespace {

wire::Message some_message() {
  wire::Message message;
  message.number = 7, message.repeat = 10;
  message.request = wire::Request::compare;
  message.num_inputs = 1, message.num_outputs = 1;
  message.tensors[1].ndim = 2, message.tensors[1].shape[0] = 3, message.tensors[1].shape[1] = 5;
  return message;
}

// A reply that is right but for an edit.
template <class Edit>
std::string problem_with(const Edit& edit) {
  wire::Reply reply;
  reply.number = 7, reply.num_operations = wire::kMaxOperations;
  reply.memory.calls = 10;
  reply.comparison.compared = 15, reply.comparison.differing = 15, reply.comparison.first = 14;
  edit(reply);
  return reply_problem(some_message(), reply);
}

TEST(Reply, that_a_worker_can_have_sent_has_no_problem) {
  EXPECT_EQ(problem_with([](wire::Reply&) {}), "");
  EXPECT_EQ(reply_problem({}, {}), "");
}

TEST(Reply, of_another_message_or_of_bytes_is_none) {
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.number = 8; }), "answers no message");
  EXPECT_EQ(problem_with([](wire::Reply& r) { std::memset(static_cast<void*>(&r), 0xEE, sizeof(r)); }),
            "answers no message");
}

TEST(Reply, whose_texts_do_not_end_is_none) {
  const auto fill = [](auto& text) { std::memset(text, 'n', sizeof(text)); };
  const char* const problem = "has a text without an end";
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.message); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.device_error); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.conduct); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.comparison.problem); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.unconfined); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.device_text); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.name); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.version); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.operations[31].name); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.operations[0].contract); }), problem);
}

TEST(Reply, whose_numbers_are_out_of_bounds_is_none) {
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.num_operations = 33; }), "has too many operations");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.num_operations = -1; }), "has too many operations");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.zones_broken = 0xEE; }), "has a flag that is neither 0 nor 1");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.memory.calls = 11; }), "has memory of calls that were not made");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.memory.end.resident = -1; }), "has memory of calls that were not made");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.comparison.first = 15; }), "names an output that does not exist");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.comparison.differing = 16; }), "names an output that does not exist");
}

TEST(PrintedLines, are_whole_marked_and_without_control_characters) {
  PrintedLines lines;
  EXPECT_EQ(lines.take("one\ntw"), "library: one\n");
  EXPECT_EQ(lines.take("o\tthree\r\n\n"), "library: two\tthree\n");
  EXPECT_EQ(lines.take("\033[31mred\x9b\a"), "");
  EXPECT_EQ(lines.end(), "library: ?[31mred??\n");
  EXPECT_EQ(lines.end(), "");
}

TEST(PrintedLines, are_cut_where_they_are_long_or_many) {
  PrintedLines lines;
  const std::string one = lines.take(std::string(PrintedLines::kLongest, 'a') + "b\n");
  EXPECT_EQ(one, "library: " + std::string(PrintedLines::kLongest, 'a') + "\nlibrary: b\n");
  std::string all;
  for (int i = 0; i < 2000; ++i) all += lines.take(std::string(999, 'c') + "\n");
  EXPECT_LT(all.size(), PrintedLines::kMost + 2000);
  EXPECT_TRUE(all.ends_with("ccc\nmxcheck: the library has printed 1 MB; the rest is left out\n"));
}

TEST(LinesOfProcesses, are_shown_once_for_all_processes_and_as_often_as_one_repeats_them) {
  LinesOfProcesses lines;
  EXPECT_EQ(lines.unseen("library: warning\nlibrary: first\nlibrary: first\n", 1),
            "library: warning\nlibrary: first\nlibrary: first\n");
  EXPECT_EQ(lines.unseen("library: warning\nlibrary: second\n", 2), "library: second\n");
  EXPECT_EQ(lines.unseen("library: second\n", 2), "library: second\n");
  EXPECT_EQ(lines.unseen("library: first\nlibrary: second\n", 3), "");
  EXPECT_EQ(lines.unseen("", 3), "");
}

}  // namespace

}  // namespace mxcheck
