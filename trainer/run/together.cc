#include "trainer/run/together.h"

#include <exception>
#include <mutex>
#include <thread>

namespace mxcheck {

std::vector<RunRecord> run_together(std::vector<RunInCompany>& runs, const CompanyWatch& watch) {
  std::vector<RunRecord> records(runs.size());
  std::vector<std::exception_ptr> errors(runs.size());
  std::mutex mutex;
  const auto run_one = [&](std::size_t i) {
    try {
      records[i] = run_training(runs[i].request, *runs[i].engine, [&](const RunProgress& progress) {
        const std::lock_guard lock(mutex);
        return !watch || watch(i, progress);
      });
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < runs.size(); ++i) threads.emplace_back(run_one, i);
  if (!runs.empty()) run_one(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return records;
}

}  // namespace mxcheck
