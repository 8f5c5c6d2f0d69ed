#include "trainer/run/together.h"

#include <mutex>
#include <thread>

namespace mxcheck {

std::vector<RunInCompanyEnd> run_together(std::vector<RunInCompany>& runs, const CompanyWatch& watch) {
  std::vector<RunInCompanyEnd> ends(runs.size());
  std::mutex mutex;
  const auto run_one = [&](std::size_t i) {
    try {
      ends[i].record = run_training(runs[i].request, *runs[i].engine, [&](const RunProgress& progress) {
        const std::lock_guard lock(mutex);
        return !watch || watch(i, progress);
      });
    } catch (...) {
      ends[i].error = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    try {
      threads.emplace_back(run_one, i);
    } catch (...) {  // no thread to be had
      ends[i].error = std::current_exception();
    }
  }
  if (!runs.empty()) run_one(0);
  for (std::thread& thread : threads) thread.join();
  return ends;
}

}  // namespace mxcheck
