#pragma once
// What mma and matmul share: tensors as operands.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "goldens/io/tensor_file.h"
#include "numerics/format/format.h"

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
void write_result(const std::string& output, Tensor d);

}  // namespace mxcheck
