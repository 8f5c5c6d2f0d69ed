// The gate against libraries that try to get past it: each must be stopped with the right exit code, in one piece.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

constexpr const char* kQuantize = "quantize_equals_the_reference";
constexpr const char* kEnd = "the_process_ends_in_order";
constexpr const char* kMemory = "ten_thousand_calls_keep_no_memory";
constexpr const char* kRefusals = "bad_arguments_are_refused_and_nothing_is_written";
constexpr const char* kInside = "nothing_is_accessed_outside_the_tensors";
constexpr std::string_view kAll = "*";

struct Adversary {
  const char* name;  // of the library, and of the test
  int exit_code;
  const char* says = "";              // part of the report, or of the one line on stderr when the exit code is 2
  std::string_view only = kQuantize;  // the statement that finds it, asked alone by day
  const char* time_limit = "20";      // short for those that never return: each run waits for it many times
};

std::ostream& operator<<(std::ostream& out, const Adversary& a) { return out << a.name; }

constexpr std::array kAdversaries{
    Adversary{"honest", 0, "", kAll},
    Adversary{"prints_and_is_right", 0, "", kAll},
    Adversary{"writes_nothing", 1, "differ from the reference", kAll},
    Adversary{"returns_the_call_before", 1, "depend on something other than the call"},
    Adversary{"zeroes_its_input", 1, "wrote into input 0"},
    Adversary{"caches_by_pointer", 1, "", "the_sign_changes_codes_and_nothing_else"},
    Adversary{"right_for_inputs_it_knows", 1, "differ"},
    Adversary{"right_for_multiples_of_32", 1, "differ from the reference"},
    Adversary{"codes_off_by_one", 1, "codes differ from the reference"},
    Adversary{"nan_everywhere", 1, "differ from the reference"},
    Adversary{"writes_after_return", 1},
    Adversary{"does_nothing_when_large", 1, "differ from the reference"},
    Adversary{"writes_past_the_end", 1, "the candidate wrote"},
    Adversary{"writes_before_the_start", 1, "the candidate wrote before output 0"},
    Adversary{"reads_past_the_end", 6, "signal 11", kInside},
    Adversary{"crashes_in_run", 6, "signal 11", kAll},
    Adversary{"hangs_in_run", 6, "did not return within the time limit", kQuantize, "0.5"},
    Adversary{"throws", 6, "signal 6"},
    Adversary{"exits_with_success", 6, "it exited"},
    Adversary{"every_hundredth_call_is_wrong", 1, "", "the_same_call_gives_the_same_bytes"},
    Adversary{"closes_descriptors", 6},
    Adversary{"leaves_a_process_behind", 1},
    Adversary{"takes_back_what_it_claims", 1, "refused a case that it claims to support"},
    Adversary{"crashes_in_supports", 2, "supports() of operation quantize crashes"},
    Adversary{"crashes_when_loaded", 2, "crashed while it was loaded (signal 6)"},
    Adversary{"has_no_symbol", 2, "has no function mxcheck_candidate"},
    Adversary{"speaks_another_version", 2, "speaks interface version 2"},
    Adversary{"has_too_many_operations", 2, "has a table of 1000000 operations"},
    Adversary{"is_a_text", 2, "cannot be loaded"},
    Adversary{"is_not_there", 2, "does not exist"},
    Adversary{"has_no_operations", 4, "", kAll},
    Adversary{"supports_nothing", 4, "", kAll},
    Adversary{"takes_its_workspace_for_cleared", 1, "scales differ"},
    Adversary{"leaves_rounding_upward", 1, "changed the floating-point environment: rounding upward"},
    Adversary{"flushes_to_zero_once_loaded", 1,
              "when it was loaded, the library changed the floating-point environment: rounding to nearest, results "
              "flushed to zero"},
    Adversary{"handles_its_own_faults", 1, "installed a handler for SIGSEGV, which hides accesses outside of tensors",
              kInside},
    Adversary{"handles_arithmetic_faults", 1, "installed a handler for SIGFPE; changed the signal mask"},
    Adversary{"right_in_its_first_thread", 1, "codes differ"},
    Adversary{"wrong_after_a_refusal", 1, "differ from those before a call in which",
              "a_refused_call_changes_nothing_after_it"},
    Adversary{"keeps_64_bytes_a_call", 1, "memory in use grows with every call", kMemory},
    Adversary{"keeps_a_mapping_a_call", 1, "address space grows with every call", kMemory},
    Adversary{"aborts_at_exit", 6, "died at its end (signal 6", kEnd},
    Adversary{"never_ends", 6, "did not end within", kEnd},
    Adversary{"stops_itself", 6, "did not return within the time limit", kQuantize, "0.5"},
    Adversary{"stops_the_gate", 0, "", kEnd},
    Adversary{"reaches_the_gate", 0, "", kEnd},
    Adversary{"message_past_its_buffer", 1, "wrote past message_bytes", kRefusals},
    Adversary{"message_without_an_end", 1, "left a message that no NUL ends", kRefusals},
    Adversary{"knows_that_it_is_tested", 1, "differ"},
};

struct Ended {
  int status = 0;       // of waitpid
  int left_behind = 0;  // processes that the gate did not clear away
  std::string out;
  std::string err;
};

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Orphans come to this process. Those that the gate ended are dead within moments; the others are counted, and ended.
int count_orphans() {
  int count = 0;
  const std::string children = read_all("/proc/self/task/" + std::to_string(getpid()) + "/children");
  for (std::size_t at = 0; at < children.size();) {
    std::size_t used = 0;
    const int pid = std::stoi(children.substr(at), &used);
    at += used + 1;
    bool dead = false;
    for (int tries = 0; tries < 200 && !dead; ++tries) {
      dead = waitpid(pid, nullptr, WNOHANG) == pid;
      if (!dead) usleep(10'000);
    }
    if (dead) continue;
    ++count;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  return count;
}

Ended run_gate(const std::vector<std::string>& arguments) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::string base = testing::TempDir() + "adversary_" + std::to_string(getpid());
  const std::array<std::string, 2> streams{base + ".out", base + ".err"};
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 2; ++i) {
      const int fd = open(streams[static_cast<std::size_t>(i)].c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(fd, i + 1);
    }
    std::vector<char*> argv;
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    execv(MXCHECK_TOOL, argv.data());
    _exit(127);
  }
  Ended ended;
  waitpid(pid, &ended.status, 0);
  ended.left_behind = count_orphans();
  ended.out = read_all(streams[0]), ended.err = read_all(streams[1]);
  for (const std::string& path : streams) unlink(path.c_str());
  return ended;
}

void expect_ending(const Adversary& adversary, std::string_view only, const std::vector<std::string>& more) {
  const std::string library = std::string(MXCHECK_ADVERSARIES) + "/" + adversary.name + ".so";
  std::vector<std::string> arguments{"mxcheck", "gate", "--candidate", library, "--suite", "quick", "--seed", "1"};
  arguments.insert(arguments.end(), {"--fail-fast", "--json", "--save", "", "--only", std::string(only)});
  arguments.insert(arguments.end(), {"--time-limit", adversary.time_limit});
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended gate = run_gate(arguments);
  ASSERT_TRUE(WIFEXITED(gate.status)) << "the gate itself died of signal " << WTERMSIG(gate.status) << ": " << gate.err;
  EXPECT_EQ(WEXITSTATUS(gate.status), adversary.exit_code) << gate.out.substr(0, 2000) << gate.err.substr(0, 2000);
  EXPECT_EQ(gate.left_behind, 0) << "processes outlive the gate";
  if (adversary.exit_code == 2) {
    EXPECT_EQ(std::count(gate.err.begin(), gate.err.end(), '\n'), 1) << gate.err;
    EXPECT_NE(gate.err.find(adversary.says), std::string::npos) << gate.err;
    EXPECT_EQ(gate.out, "");
    return;
  }
  const Json report = Json::parse(gate.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << gate.out.substr(0, 2000);
  EXPECT_EQ(report.at("exit_code"), adversary.exit_code);
  EXPECT_NE(gate.out.find(adversary.says), std::string::npos) << gate.out.substr(0, 6000);
}

class Adversaries : public testing::TestWithParam<Adversary> {};

// The right library meets every statement, though few cases of each: were it wrong, the others would fail for nothing.
TEST_P(Adversaries, get_the_right_exit_code_and_leave_the_gate_whole) {
  std::vector<std::string> more;
  if (GetParam().exit_code == 0 && GetParam().only == kAll) more = {"--cases", "40"};
  expect_ending(GetParam(), GetParam().only, more);
}

// At night: as a user meets them, with all statements.
TEST_P(Adversaries, end_as_they_should_in_the_whole_suite) { expect_ending(GetParam(), kAll, {}); }

// A library that makes its process abort at exit is at fault, though no statement that runs asks how it ends.
TEST(Adversary, that_aborts_after_all_statements_is_a_fault) {
  const Ended gate =
      run_gate({"mxcheck", "gate", "--candidate", std::string(MXCHECK_ADVERSARIES) + "/aborts_at_exit.so", "--only",
                kRefusals, "--cases", "20", "--json", "--save", ""});
  EXPECT_EQ(WEXITSTATUS(gate.status), 6);
  const Json report = Json::parse(gate.out, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("ends").at(0), "the candidate's process died at its end (signal 6, Aborted)");
}

std::string digest_of(const std::string& library) {
  const Ended gate = run_gate(
      {"mxcheck", "gate", "--candidate", library, "--only", "the_process_ends_in_order", "--json", "--save", ""});
  const Json report = Json::parse(gate.out, nullptr, false);
  return report.is_object() ? report.at("candidate").at("digest").get<std::string>() : gate.err;
}

TEST(Adversary, with_a_part_beside_it_has_another_digest_when_that_changes) {
  const std::string folder = testing::TempDir() + "part_beside_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string library = folder + "/has_a_part_beside.so";
  const std::string original = std::string(MXCHECK_ADVERSARIES) + "/has_a_part_beside.so";
  std::filesystem::copy_file(original, library);
  const std::string alone = digest_of(library);
  EXPECT_EQ(alone, digest_of(original)) << "of the bytes, not of the path";
  std::ofstream(folder + "/part_of_it.bin") << "one";
  const std::string one = digest_of(library);
  std::ofstream(folder + "/part_of_it.bin") << "two";
  const std::string two = digest_of(library);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(alone.size(), 16U);
  EXPECT_NE(one, alone);
  EXPECT_NE(two, one);
}

// The library's own name is none of its adversaries'. Under such a name it must not pass for the honest one.
TEST(Adversary, whose_name_is_unknown_is_not_loaded) {
  const Ended gate = run_gate({"mxcheck", "gate", "--candidate", std::string(MXCHECK_ADVERSARIES) + "/adversary.so"});
  EXPECT_EQ(WEXITSTATUS(gate.status), 2) << gate.out.substr(0, 2000);
  EXPECT_NE(gate.err.find("adversary.so: no adversary has this name"), std::string::npos) << gate.err;
}

INSTANTIATE_TEST_SUITE_P(All, Adversaries, testing::ValuesIn(kAdversaries),
                         [](const testing::TestParamInfo<Adversary>& info) { return info.param.name; });

}  // namespace
