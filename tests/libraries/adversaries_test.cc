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
#include <iterator>

#include <nlohmann/json.hpp>

#include "tests/libraries/catalogue.h"

namespace {

using Json = nlohmann::json;

// Found by a statement that is asked alone by day. With exit code 2 the report is one line on stderr.
using Adversary = mxcheck::test::WrongLibrary;

struct Ended {
  int status = 0;       // of waitpid
  int left_behind = 0;  // processes that the gate did not clear away
  std::string out, err;
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
  ended.left_behind = count_orphans(), ended.out = read_all(streams[0]), ended.err = read_all(streams[1]);
  for (const std::string& path : streams) unlink(path.c_str());
  return ended;
}

void expect_ending(const Adversary& adversary, std::string_view only, const std::vector<std::string>& more) {
  const std::string library = std::string(MXCHECK_ADVERSARIES) + "/" + adversary.name + ".so";
  std::vector<std::string> arguments{"mxcheck", "gate", "--candidate", library, "--suite", "quick", "--seed", "1"};
  arguments.insert(arguments.end(), {"--fail-fast", "--json", "--save", "", "--only", std::string(only)});
  // Short for those that never return: each run waits for it many times.
  arguments.insert(arguments.end(), {"--time-limit", adversary.value("time-limit", "20")});
  arguments.insert(arguments.end(), {"--memory-limit", adversary.value("memory-limit", "0")});
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended gate = run_gate(arguments);
  ASSERT_TRUE(WIFEXITED(gate.status)) << "the gate itself died of signal " << WTERMSIG(gate.status) << ": " << gate.err;
  EXPECT_EQ(WEXITSTATUS(gate.status), adversary.exit_code()) << gate.out.substr(0, 2000) << gate.err.substr(0, 2000);
  EXPECT_EQ(gate.left_behind, 0) << "processes outlive the gate";
  if (adversary.exit_code() == 2) {
    EXPECT_EQ(std::count(gate.err.begin(), gate.err.end(), '\n'), 1) << gate.err;
    EXPECT_NE(gate.err.find(adversary.says), std::string::npos) << gate.err;
    EXPECT_EQ(gate.out, "");
    return;
  }
  const Json report = Json::parse(gate.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << gate.out.substr(0, 2000);
  EXPECT_EQ(report.at("exit_code"), adversary.exit_code());
  EXPECT_NE(gate.out.find(adversary.says), std::string::npos) << gate.out.substr(0, 6000);
}

class Adversaries : public testing::TestWithParam<Adversary> {};

// The right library meets every statement, though few cases of each: were it wrong, the others would fail for nothing.
TEST_P(Adversaries, get_the_right_exit_code_and_leave_the_gate_whole) {
  std::vector<std::string> more;
  if (GetParam().must_pass() && GetParam().found_by == "*") more = {"--cases", "40"};
  expect_ending(GetParam(), GetParam().found_by, more);
}

// At night: as a user meets them, with all statements.
TEST_P(Adversaries, end_as_they_should_in_the_whole_suite) { expect_ending(GetParam(), "*", {}); }

// A library that makes its process abort at exit is at fault, though no statement that runs asks how it ends.
TEST(Adversary, that_aborts_after_all_statements_is_a_fault) {
  const Ended gate =
      run_gate({"mxcheck", "gate", "--candidate", std::string(MXCHECK_ADVERSARIES) + "/aborts_at_exit.so", "--only",
                "bad_arguments_are_refused_and_nothing_is_written", "--cases", "20", "--json", "--save", ""});
  EXPECT_EQ(WEXITSTATUS(gate.status), 6);
  const Json report = Json::parse(gate.out, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("ends").at(0), "the candidate's process died at its end (signal 6, Aborted)");
}

// It could fill a disk, clear a terminal, or put a verdict of its own into a log.
TEST(Adversary, that_prints_without_end_is_cut_off_and_each_line_is_marked) {
  const mxcheck::test::WrongLibrary row = mxcheck::test::wrong_library("adversary", "prints_without_end");
  const Ended gate =
      run_gate({"mxcheck", "gate", "--candidate", std::string(MXCHECK_ADVERSARIES) + "/" + row.name + ".so", "--only",
                row.found_by, "--fail-fast", "--save", "", "--time-limit", row.value("time-limit", "")});
  EXPECT_EQ(WEXITSTATUS(gate.status), row.exit_code());
  EXPECT_NE(gate.out.find(row.says), std::string::npos) << gate.out;
  EXPECT_LT(gate.err.size(), std::size_t{1200} << 10);
  EXPECT_EQ(gate.err.find('\033'), std::string::npos);
  EXPECT_EQ(gate.err.find("\nexit code 0"), std::string::npos);
  EXPECT_NE(gate.err.find("\nlibrary: exit code 0: every statement that ran held\n"), std::string::npos);
  EXPECT_NE(gate.err.find("\nmxcheck: the library has printed 1 MB; the rest is left out\n"), std::string::npos);
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

INSTANTIATE_TEST_SUITE_P(All, Adversaries, testing::ValuesIn(mxcheck::test::tabled_libraries("adversary")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
