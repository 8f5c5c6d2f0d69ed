#include "goldens/io/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;
using Naming = AtomicFile::Naming;

class AtomicFileTest : public testing::TestWithParam<Naming> {
 protected:
  test::TemporaryDirectory dir;
};

INSTANTIATE_TEST_SUITE_P(BothWays, AtomicFileTest, testing::Values(Naming::late, Naming::early),
                         [](const auto& info) { return info.param == Naming::late ? "unnamed" : "named"; });

TEST_P(AtomicFileTest, appears_with_all_its_bytes_at_commit_and_not_before) {
  {
    AtomicFile file(dir / "x", GetParam());
    file.write(std::string(100000, 'a'));
    file.write("b");
    EXPECT_FALSE(std::filesystem::exists(dir / "x"));
    file.commit();
  }
  EXPECT_EQ(test::read_file(dir / "x"), std::string(100000, 'a') + "b");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
}

TEST_P(AtomicFileTest, leaves_nothing_without_commit_and_keeps_what_was_there) {
  test::write_file(dir / "x", "old");
  { AtomicFile(dir / "x", GetParam()).write("new"); }
  EXPECT_EQ(test::read_file(dir / "x"), "old");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
}

TEST_P(AtomicFileTest, replaces_a_file_with_the_permissions_of_a_new_one) {
  test::write_file(dir / "x", "old");
  const mode_t mask = ::umask(027);
  AtomicFile file(dir / "x", GetParam());
  ::umask(mask);
  file.write("new");
  file.commit();
  struct stat status {};
  ASSERT_EQ(::stat((dir / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  EXPECT_EQ(test::read_file(dir / "x"), "new");
}

TEST_P(AtomicFileTest, follows_a_symbolic_link_rather_than_replacing_it) {
  test::write_file(dir / "target", "old");
  std::filesystem::create_symlink("target", dir / "link");
  AtomicFile file(dir / "link", GetParam());
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(test::read_file(dir / "target"), "new");
}

TEST_P(AtomicFileTest, makes_the_file_that_a_dangling_link_names) {
  std::filesystem::create_directory(dir / "there");
  std::filesystem::create_symlink("there/target", dir / "near");
  std::filesystem::create_symlink("near", dir / "link");
  AtomicFile file(dir / "link", GetParam());
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "near"));
  EXPECT_EQ(test::read_file(dir / "there/target"), "new");

  std::filesystem::create_symlink("nowhere/target", dir / "lost");
  std::filesystem::create_symlink("loop", dir / "loop");
  for (const char* name : {"lost", "loop"}) {
    expect_error(ErrorKind::usage, "cannot be written", [&] { AtomicFile(dir / name, GetParam()); });
    EXPECT_TRUE(std::filesystem::is_symlink(dir / name));
  }
}

TEST_P(AtomicFileTest, what_is_done_before_the_file_appears_can_prevent_it) {
  AtomicFile file(dir / "x", GetParam());
  file.write("new");
  expect_error(ErrorKind::environment, "nobody listens", [&] {
    file.commit([&] {
      EXPECT_FALSE(std::filesystem::exists(dir / "x"));
      throw Error(ErrorKind::environment, "nobody listens");
    });
  });
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
}

TEST_P(AtomicFileTest, reports_a_failed_write_as_the_machines_fault_and_leaves_nothing) {
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{4096, old.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ErrorKind::environment, "writing failed: File too large", [&] {
    AtomicFile file(dir / "x", GetParam());
    file.write(std::string(10000, 'a'));
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(dir.names().empty());
}

TEST_P(AtomicFileTest, refuses_paths_that_cannot_be_written) {
  std::filesystem::create_directory(dir / "d");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases{{"missing/x", "No such file or directory"},
                                                               {"d", "it is a directory"},
                                                               {"d/", "it is a directory"},
                                                               {"pipe", "it is a FIFO"},
                                                               {"pipe/x", "Not a directory"}};
  for (const auto& [name, text] : cases) {
    expect_error(ErrorKind::usage, text, [&, &n = name] { AtomicFile(dir / n, GetParam()); });
  }
  expect_error(ErrorKind::usage, "cannot be written", [] { AtomicFile("", GetParam()); });
  EXPECT_EQ(dir.names().size(), 2U);
}

TEST(AtomicFile, leaves_nothing_when_the_process_is_killed) {
  const test::TemporaryDirectory dir;
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(dir / "x");
    file.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(dir.names().empty());
}

TEST(AtomicFile, two_writers_of_one_path_do_not_meet) {
  const test::TemporaryDirectory dir;
  AtomicFile a(dir / "x", Naming::early);
  AtomicFile b(dir / "x", Naming::early);
  a.write("a");
  b.write("b");
  a.commit();
  b.commit();
  EXPECT_EQ(test::read_file(dir / "x"), "b");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace mxcheck
