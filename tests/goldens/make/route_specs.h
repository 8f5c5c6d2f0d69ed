#pragma once
// Texts of suites with one golden about routers.

#include <string>

namespace mxcheck::test {

inline std::string suite_with(const std::string& golden) { return R"({"suite": "s", "goldens": [)" + golden + "]}"; }

inline std::string golden_of(const std::string& kind, const std::string& more) {
  return R"({"name": "g", "kind": ")" + kind + "\"" + (more.empty() ? "" : ", " + more) + "}";
}

inline constexpr const char* kTies = R"("input": {"ties": "fp32", "rows": 20, "cols": 8})";

inline std::string ties(const std::string& more) { return std::string(kTies) + ", " + more; }

}  // namespace mxcheck::test
