#pragma once
// Helpers shared by mma and matmul: tensors as operands.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "numerics/format/format.h"
#include "tools/common/output.h"

namespace mxcheck {

// Two dimensions, or three: a batch of matrices. Error{input} for others.
struct Stack {
  std::int64_t count = 1;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool batched = false;
};
Stack stack_of(const Tensor& tensor, const std::string& location);

// The format of codes: `name` if given, else what the dtype says (uint8 is e4m3, uint16 bf16). Error{input} where the
// dtype cannot hold it.
Format code_format(const std::string& name, const Tensor& tensor, const std::string& location);

// Error{input} for the first code with bits beyond its format's (E2M1, E2M3, E3M2 in bytes).
void check_codes(Format format, std::span<const std::byte> codes, const std::string& location);

// "3,7" as two numbers, or Error{usage} naming the flag.
std::pair<std::int64_t, std::int64_t> parse_place(const std::string& text, const std::string& flag);

// To OUT.npy, or OUT.safetensors with the one tensor.
// before_it_appears: what is to be printed about it; see write_npy.
void write_result(const std::string& output, Tensor d, const std::function<void()>& before_it_appears = {});

// "c.npy: is F32 of 2 x 3; " and what would be right.
[[noreturn]] void refuse_c(const std::string& location, const Tensor& c, const std::string& wanted);

// An output as --explain shows it: {"row": 3, "column": 7, "steps": [LINE, ...]}.
Json explained_json(std::pair<std::int64_t, std::int64_t> place, const std::vector<std::string>& lines);

}  // namespace mxcheck
