#pragma once
// Results as JSON: everything that the tables have, in microseconds, bytes and TFLOPS.

#include "benchmarks/sm90/moe/report/results.h"
#include "goldens/json/json.h"

namespace mxcheck::bench {

Json json_of(const MoeResults& results);

}  // namespace mxcheck::bench
