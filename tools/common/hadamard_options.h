#pragma once
// The Hadamard transform of a command's matrix, along its rows: --hadamard, --signs, --hadamard-sum, --hadamard-result.
//
//   add_hadamard_options(sub, o->hadamard, "Hadamard transform", "exact");
//   const std::optional<Hadamard> transform = hadamard_of(o.hadamard, Format::bf16);
//   described(*transform)                // {{"hadamard", "16"}, {"hadamard_signs", "0x2d4b"}, ...}
//
// Errors: Error{usage} of hadamard_of for options without --hadamard, and for values that are none.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/quantize/hadamard.h"
#include "tools/common/command_line.h"

namespace mxcheck {

struct HadamardOptions {
  std::string size;    // empty: no transform
  std::string signs;   // 0xHEX, or a seed
  std::string sum;     // exact, butterfly, or a contract
  std::string result;  // empty: the matrix's type
};

// usual: what is done without --hadamard-sum, as "exact"
void add_hadamard_options(Command& sub, HadamardOptions& o, const std::string& group, const std::string& usual);

// The values of --hadamard-sum: exact, butterfly, and the contracts that multiply BF16.
std::vector<std::string> hadamard_sums();

// The transform of a matrix of this type; none without --hadamard.
std::optional<Hadamard> hadamard_of(const HadamardOptions& o, Format matrix);

// Keys and values of a transform, for metadata and JSON, and in a line: "hadamard 16 along rows, signs 0x2d4b, sum
// exact, to bf16".
std::vector<std::pair<std::string, std::string>> described(const Hadamard& transform);
std::string to_text(const Hadamard& transform);

}  // namespace mxcheck
