#pragma once
// The counterexample of a report in JSON.

#include "goldens/json/strict_json.h"
#include "properties/gate/gate.h"

namespace mxcheck {

// Texts of any length; what strict_json's text() refuses too is a text with line breaks.
std::string any_text(JsonObject& o, const char* key);
std::vector<std::string> texts(JsonObject& o, const char* key);

Counterexample counterexample_from(const Json& json, const Statement& statement, const std::string& place);

}  // namespace mxcheck
