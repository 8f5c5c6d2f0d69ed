#include "tools/common/json.h"

#include <cmath>

#include "tools/common/text.h"

namespace mxcheck {

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(decimal(value)); }

void print_json(const Json& json) { print(to_text(json) + "\n"); }

}  // namespace mxcheck
