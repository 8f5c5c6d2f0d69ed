#include "reference/common/parallel.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace mxcheck {
namespace {

constexpr std::int64_t kMuchWork = std::int64_t{1} << 40;

TEST(Parallel, does_every_index_once_whatever_the_threads) {
  for (const int threads : {0, 1, 2, 3, 7, 64}) {
    for (const std::int64_t count : {0, 1, 2, 5, 63, 64, 65, 1000}) {
      std::vector<int> done(static_cast<std::size_t>(count), 0);
      parallel_ranges(count, kMuchWork, threads, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LT(begin, end);
        for (std::int64_t i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(done, std::vector<int>(static_cast<std::size_t>(count), 1)) << threads << " threads";
    }
  }
}

TEST(Parallel, runs_on_the_callers_thread_alone_when_the_work_is_small) {
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  parallel_ranges(1000, 1000, 8, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 1000);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(Parallel, uses_as_many_threads_as_asked) {
  std::vector<std::thread::id> ids(5);
  parallel_ranges(5, kMuchWork, 5, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(end, begin + 1);
    ids[static_cast<std::size_t>(begin)] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_NE(ids[i], ids[0]);
}

TEST(Parallel, rethrows_the_exception_of_the_lowest_index) {
  for (const int threads : {1, 2, 3, 8}) {
    std::string text;
    try {
      parallel_ranges(100, kMuchWork, threads, [](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if (i % 30 == 17) throw std::runtime_error(std::to_string(i));
        }
      });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    EXPECT_EQ(text, "17") << threads << " threads";
  }
}

TEST(Parallel, knows_the_machines_threads) {
  EXPECT_GE(thread_count(0), 1);
  EXPECT_EQ(thread_count(3), 3);
}

}  // namespace
}  // namespace mxcheck
