#pragma once
// JSON on standard output.

#include "goldens/json/json.h"

namespace mxcheck {

// JSON has no NaN and no infinities: these become the strings "nan", "inf" and "-inf".
Json json_number(double value);

// The text and a line end; Error{environment} when standard output cannot be written. Bytes that are no UTF-8, which
// arguments and file names may hold, are replaced.
void print_json(const Json& json);

}  // namespace mxcheck
