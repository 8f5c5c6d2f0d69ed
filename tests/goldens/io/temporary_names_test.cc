#include "goldens/io/temporary_names.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "goldens/io/atomic_file.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

// Runs work in a child that removes its temporaries on signals, sends it the signal after `delay`; how it ended.
int signalled(int signal, std::chrono::microseconds delay, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::signal(s, SIG_DFL);
    remove_temporaries_on_signals();
    work();
    ::pause();
    ::_exit(0);
  }
  std::this_thread::sleep_for(delay);
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(TemporaryNames, a_signal_leaves_neither_complete_files_nor_begun_ones_nor_made_directories) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const test::TemporaryDirectory dir;
    const int status = signalled(signal, std::chrono::milliseconds(300), [&] {
      std::filesystem::create_directory(dir / "made");
      remember_temporary(dir / "made");
      AtomicFile complete(dir / "made/complete");
      complete.write("all of it");
      complete.complete();
      AtomicFile named(dir / "made/named", AtomicFile::Naming::early);
      AtomicFile unnamed(dir / "unnamed");
      ::pause();
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_TRUE(dir.names().empty()) << dir.names().front();
  }
}

TEST(TemporaryNames, a_signal_at_any_moment_of_threads_that_write_leaves_whole_files_alone) {
  for (int moment = 0; moment < 40; ++moment) {
    const test::TemporaryDirectory dir;
    const int status = signalled(SIGTERM, std::chrono::microseconds(2000 + 371 * moment), [&] {
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&dir, t] {
          const auto naming = t == 0 ? AtomicFile::Naming::late : AtomicFile::Naming::early;
          for (int i = 0;; ++i) {
            AtomicFile file(dir / (std::to_string(t) + "-" + std::to_string(i)), naming);
            file.write("whole");
            if (i % 2 == 0) file.commit();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
    for (const std::string& name : dir.names()) {
      EXPECT_NE(name[0], '.') << name;
      EXPECT_EQ(test::read_file(dir / name), "whole") << name;
    }
  }
}

TEST(TemporaryNames, what_has_its_name_stays_and_an_ignored_signal_ends_nothing) {
  const test::TemporaryDirectory dir;
  int status = signalled(SIGTERM, std::chrono::milliseconds(200), [&] {
    AtomicFile file(dir / "x");
    file.write("new");
    file.commit();
  });
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGHUP, SIG_IGN);  // as nohup does
    remove_temporaries_on_signals();
    ::raise(SIGHUP);
    ::_exit(7);
  }
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace mxcheck
