#pragma once
// Texts of suites with one golden: of routers, and of the kinds swiglu and layer.

#include <string>

namespace mxcheck::test {

inline std::string suite_with(const std::string& golden) { return R"({"suite": "s", "goldens": [)" + golden + "]}"; }

inline std::string golden_of(const std::string& kind, const std::string& more) {
  return R"({"name": "g", "kind": ")" + kind + "\"" + (more.empty() ? "" : ", " + more) + "}";
}

inline constexpr const char* kTies = R"("input": {"ties": "fp32", "rows": 20, "cols": 8})";

inline std::string ties(const std::string& more) { return std::string(kTies) + ", " + more; }

inline std::string normal_numbers_of(int seed, int rows, int cols, const std::string& dtype = "bf16") {
  return R"({"normal": )" + std::to_string(seed) + R"(, "rows": )" + std::to_string(rows) + R"(, "cols": )" +
         std::to_string(cols) + R"(, "dtype": ")" + dtype + "\"}";
}

// 70 rows of 40: experts of 33, 0 and 37 rows.
inline std::string swiglu_of(const std::string& more = "") {
  return golden_of("swiglu", R"("gate": )" + normal_numbers_of(1, 70, 40) + R"(, "up": )" +
                                 normal_numbers_of(2, 70, 40) + R"(, "p": )" + normal_numbers_of(3, 70, 40, "fp32") +
                                 R"(, "weights": )" + normal_numbers_of(4, 70, 1) + R"(, "offsets": [0, 33, 33, 70])" +
                                 more);
}

// 40 tokens of width 64, 3 experts of inner width 32, of which 1 is closed.
inline std::string layer_of(const std::string& recipe = "mxfp8", const std::string& more = "",
                            const std::string& gate_rows = "64") {
  const auto three = [](int seed, const std::string& rows, const std::string& cols) {
    std::string list;
    for (int e = 0; e < 3; ++e)
      list += (e == 0 ? "" : ", ") + normal_numbers_of(seed + e, std::stoi(rows), std::stoi(cols));
    return "[" + list + "]";
  };
  return golden_of("layer", R"("recipe": ")" + recipe + R"(", "x": )" + normal_numbers_of(1, 40, 64) + R"(, "d_o": )" +
                                normal_numbers_of(2, 40, 64) + R"(, "logits": )" + normal_numbers_of(3, 40, 3) +
                                R"(, "gate": )" + three(10, gate_rows, "32") + R"(, "up": )" + three(20, "64", "32") +
                                R"(, "down": )" + three(30, "32", "64") +
                                R"(, "closed": [1], "top_k": 2, "variant": "softmax-topk")" + more);
}

}  // namespace mxcheck::test
