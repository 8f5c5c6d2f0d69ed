#pragma once
// A record, replayed on a machine without the device that it was made on: every statement's check runs again on every
// case, the candidate's answers are the reference's, and each must have the digest of what the device returned.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "properties/records/record.h"

namespace mxcheck {

struct ReplayedStatement {
  std::string name;
  std::int64_t cases = 0;
  std::int64_t calls = 0;
  std::int64_t outputs = 0;              // compared by their digests
  std::vector<std::string> differences;  // each a line: the case, the call, the output; at most 5 are kept
  std::int64_t different = 0;            // cases
};

struct ReplayReport {
  std::vector<ReplayedStatement> statements;
  std::vector<std::string> unknown;  // statements of the record that this mxcheck does not have
  double seconds = 0;
  [[nodiscard]] bool equal() const;
  [[nodiscard]] std::int64_t cases() const;
};

// Threads (0: the machine's) change nothing but the time. `finished` is called for each statement, in order.
ReplayReport replay(const Record& record, int threads, const std::function<void(const ReplayedStatement&)>& finished);

}  // namespace mxcheck
