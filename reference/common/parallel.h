#pragma once
// One loop over several threads. Each index is done by exactly one thread; a body that writes only what belongs to its
// indices gives the same result for every thread count. When several indices throw, the exception of the lowest range
// is rethrown: also independent of the thread count, as long as a body goes through its range in order.
//
//   parallel_ranges(rows, rows * cols, threads, [&](std::int64_t begin, std::int64_t end) { ... });
//
// Errors: those of the body.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace mxcheck {

// While there is one, 0 threads are one thread, on its own thread alone: for callers that divide other work already.
class OneThreadEach {
 public:
  OneThreadEach() { ++depth(); }
  ~OneThreadEach() { --depth(); }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;
  static bool is_on() { return depth() > 0; }

 private:
  static int& depth() {
    static thread_local int depth = 0;
    return depth;
  }
};

// threads as requested; 0 is the machine's number.
inline std::int64_t thread_count(int threads) {
  if (threads > 0) return threads;
  if (OneThreadEach::is_on()) return 1;
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

// body(begin, end) on consecutive ranges that cover [0, count): as many as there are threads, fewer where the work is
// small. work counts elements; starting a thread costs as much as some ten thousand of them.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t work, int threads, Body body) {
  constexpr std::int64_t kWorkOfAThread = 1 << 14;
  const std::int64_t most = std::min(count, std::max<std::int64_t>(1, work / kWorkOfAThread));
  const std::int64_t ranges = std::min(thread_count(threads), most);
  if (ranges <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t share = count / ranges;
  const std::int64_t longer = count % ranges;  // the first ranges have one index more
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranges));
  const auto run = [&](std::int64_t range) {
    const std::int64_t begin = range * share + std::min(range, longer);
    try {
      body(begin, begin + share + (range < longer ? 1 : 0));
    } catch (...) {
      failures[static_cast<std::size_t>(range)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    workers.reserve(static_cast<std::size_t>(ranges));
    for (std::int64_t range = 1; range < ranges; ++range) {
      try {
        workers.emplace_back(run, range);
      } catch (const std::system_error&) {  // thread creation failed: this thread does the work
        run(range);
      }
    }
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace mxcheck
