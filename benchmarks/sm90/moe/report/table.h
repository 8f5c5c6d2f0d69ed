#pragma once
// Results as text, a table each of whole passes, of steps, and of memory.

#include <string>

#include "benchmarks/sm90/moe/report/results.h"

namespace mxcheck::bench {

// The meaning of the columns, once before all tables.
std::string head_text(const MoeResults& results);

std::string passes_text(const ShapeResult& result);
std::string steps_text(const ShapeResult& result, double copy_bytes_per_second);
std::string memory_text(const ShapeResult& result);

}  // namespace mxcheck::bench
