#include "properties/gate/gpus.h"

#include <algorithm>
#include <set>

#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {

GpusOfRun gpus_of_job(const std::vector<Gpu>& visible, int job) {
  if (visible.size() < 2) return {};
  return {visible, static_cast<std::size_t>(job) % visible.size()};
}

FailingGpus where_it_fails(CandidateRunner& process, const std::function<bool()>& fails) {
  const GpusOfRun gpus = process.gpus();
  if (gpus.all.empty()) return {};
  std::vector<Gpu> failing, passing;
  std::string unusable;
  for (std::size_t i = 0; i < gpus.all.size(); ++i) {
    bool has_failed = i == gpus.own;
    if (i != gpus.own) {
      try {
        process.move_to(i);
        has_failed = fails();
      } catch (const Error& e) {  // of a GPU that is of no use
        unusable += std::string("; ") + e.what();
        continue;
      }
    }
    (has_failed ? failing : passing).push_back(gpus.all[i]);
  }
  process.move_to(gpus.own);
  if (passing.empty()) return {unusable, ""};
  const auto name = [](const Gpu& gpu) { return to_text(gpu); };
  return {"; on " + join(failing, ", ", name) + ", not on " + join(passing, ", ", name) + unusable,
          gpus.all[gpus.own].uuid};
}

FailingGpus where_it_failed(const CandidateRunner& process) {
  const GpusOfRun gpus = process.gpus();
  if (gpus.all.empty()) return {};
  return {"; it failed on " + to_text(gpus.all[gpus.own]), ""};
}

std::vector<std::string> texts_of_ends(const std::vector<std::pair<std::string, std::size_t>>& ends,
                                       const std::vector<Gpu>& visible, int jobs) {
  const std::size_t used = std::min(visible.size(), static_cast<std::size_t>(jobs));
  std::vector<std::string> texts;
  std::set<std::string> told;
  for (const auto& [text, first] : ends) {
    if (!told.insert(text).second) continue;
    std::set<std::size_t> gpus;
    for (const auto& [other, gpu] : ends) {
      if (other == text) gpus.insert(gpu);
    }
    std::string where;
    for (const std::size_t gpu : gpus) {
      if (gpus.size() < used) where += (where.empty() ? "; on " : ", ") + to_text(visible[gpu]);
    }
    texts.push_back(text + where);
  }
  return texts;
}

}  // namespace mxcheck
