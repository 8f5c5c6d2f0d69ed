#include "properties/records/recording.h"

#include "kernels/candidate.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostOfStatement = 24;  // outputs that are kept whole
constexpr std::size_t kMostBytesOfOne = 2048;

}  // namespace

Outcome RecordingRunner::run(const Call& call) {
  Outcome outcome = candidate_.run(call);
  RecordedCall recorded;
  recorded.status = outcome.status;
  if (outcome.kind == OutcomeKind::returned && outcome.status == MXCHECK_OK) {
    for (std::size_t i = 0; i < outcome.outputs.size(); ++i) {
      std::vector<std::byte> bytes = outcome.outputs[i];
      if (nans_are_equal(call.operation)) make_nans_equal(bytes, call.outputs[i]);
      std::size_t number = recorded.outputs.size();
      for (const RecordedCall& earlier : calls_) number += earlier.outputs.size();
      recorded.outputs.push_back(digest_of(bytes));
      if (!bytes.empty() && bytes.size() <= kMostBytesOfOne) small_.emplace_back(number, std::move(bytes));
    }
  }
  calls_.push_back(std::move(recorded));
  return outcome;
}

void RecordingRunner::keep_case(const std::string& statement, const Case& c) {
  if (record_.statements.empty() || record_.statements.back() != statement) {
    record_.statements.push_back(statement);
    kept_of_statement_ = 0;
  }
  record_.cases.push_back({static_cast<std::uint32_t>(record_.statements.size() - 1), c, calls_});
  for (auto& [at, bytes] : small_) {
    if (kept_of_statement_ == kMostOfStatement) break;
    ++kept_of_statement_;
    record_.kept.push_back({outputs_ + static_cast<std::uint32_t>(at), std::move(bytes)});
  }
  for (const RecordedCall& call : calls_) outputs_ += static_cast<std::uint32_t>(call.outputs.size());
  begin_case();
}

Record RecordingRunner::take() {
  record_.candidate = candidate_.info();
  return std::move(record_);
}

}  // namespace mxcheck
