#include "properties/process/process_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <filesystem>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

namespace mxcheck {
namespace {

TEST(ProcessState, what_a_library_changes_is_told_and_undone) {
  const ProcessState before = ProcessState::now();
  EXPECT_EQ(before.undo_changes(), "");
  const std::filesystem::path folder = std::filesystem::current_path();
  const mode_t mask = umask(0);
  umask(mask ^ 1);
  std::filesystem::current_path("/proc");
  std::setlocale(LC_NUMERIC, "C.UTF-8");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit fewer{files.rlim_cur - 1, files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &fewer);
  EXPECT_EQ(before.undo_changes(), "changed the working directory, the umask, the locale, the limit RLIMIT_NOFILE");
  EXPECT_EQ(before.undo_changes(), "");
  EXPECT_EQ(std::filesystem::current_path(), folder);
  EXPECT_EQ(umask(mask), mask);
  EXPECT_STREQ(std::setlocale(LC_ALL, nullptr), "C");
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, files.rlim_cur);
}

TEST(ProcessState, another_stream_is_told) {
  const ProcessState before = ProcessState::now();
  const int own = dup(0), other = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  dup2(other, 0);
  EXPECT_EQ(before.undo_changes(), "changed the standard input");
  dup2(own, 0);
  EXPECT_EQ(before.undo_changes(), "");
  close(own), close(other);
}

TEST(ResourceWatch, counts_what_the_heap_has_given_out) {
  const ResourceWatch watch;
  (void)watch.now();
  const MemoryUse before = watch.now();
  std::vector<std::unique_ptr<double>> kept(1000);
  const MemoryUse with_the_vector = watch.now();
  for (std::unique_ptr<double>& one : kept) one = std::make_unique<double>(1);
  const MemoryUse now = watch.now();
  if (now.heap == 0) GTEST_SKIP() << "this C library does not count them";
  EXPECT_GE(with_the_vector.heap - before.heap, 8'000);
  EXPECT_NEAR(static_cast<double>(now.heap - with_the_vector.heap), 32'000, 1'000);  // malloc() keeps a few for itself
}

TEST(ResourceWatch, counts_open_files_threads_and_children) {
  const ResourceWatch watch;
  const MemoryUse before = watch.now();
  const int file = dup(0);
  std::binary_semaphore over(0);
  std::thread thread([&] { over.acquire(); });
  const pid_t child = fork();
  if (child == 0) _exit(0);
  const MemoryUse now = watch.now();
  EXPECT_EQ(now.files, before.files + 1);
  EXPECT_EQ(now.threads, before.threads + 1);
  EXPECT_EQ(now.children, before.children + 1);
  EXPECT_GT(now.resident, 0);
  over.release();
  thread.join();
  close(file);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  const MemoryUse after = watch.now();
  EXPECT_EQ(after.files, before.files);
  EXPECT_EQ(after.children, before.children);
  EXPECT_GT(most_open_files(), after.files);
}

}  // namespace
}  // namespace mxcheck
