#pragma once
// Compares a candidate's tensor with a golden's, byte for byte, without holding either in memory.

#include <atomic>
#include <cstdint>
#include <string>

#include "goldens/format/reader.h"

namespace mxcheck {

// The tensor at `location` (what open_rows takes: "mine.h5:/codes") has the dataset's dtype, shape and bytes. Both are
// read in pieces of 4 MiB, at the same time where one is read by another process. Errors are those of both readers.
// Bytes are added to `compared` as they are.
bool dataset_equals(const GoldenReader& golden, const std::string& dataset, const std::string& location,
                    std::atomic<std::uint64_t>* compared = nullptr);

}  // namespace mxcheck
