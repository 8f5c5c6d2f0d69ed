#pragma once
// One call of a candidate with inputs of one's own: a case of zeros is posed as the gate poses it, its inputs are
// replaced, and what comes back is read.
//
//   Posing p(process, variant, 16, 16, [](Case& c) { matmul_case(c).depth = 128; });
//   p.set(0, Format::e4m3, codes, 16, 128);
//   p.run();
//   p.words(0, 16, 16);
//
// A matrix that is smaller than the case's is padded below and to the right.
//
// Errors: CallFailed for a candidate that crashes, does not return, refuses, or does what no call may.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "properties/core/operation.h"

namespace mxcheck {

struct CallFailed {
  bool ended = false;  // crashed or did not return
  std::string what;
};

class Posing {
 public:
  // Extents are raised to the multiples that the candidate's operation takes. CallFailed where its limits are smaller.
  Posing(CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
         const std::function<void(Case&)>& edit = {});
  [[nodiscard]] const Case& posed() const { return problem_->c; }

  // Input number `input`, whose elements are words of this type; what is padded holds `fill`.
  void set(std::size_t input, Format type, const std::vector<std::uint32_t>& words, std::int64_t rows,
           std::int64_t cols, std::uint32_t fill = 0);
  void run();
  // The upper left of an output; its type.
  [[nodiscard]] std::vector<std::uint32_t> words(std::size_t output, std::int64_t rows, std::int64_t cols) const;
  [[nodiscard]] Format type(std::size_t output) const { return call_.outputs[output].dtype; }

 private:
  CandidateRunner& runner_;
  std::unique_ptr<Problem> problem_;
  Call call_;
  std::vector<std::vector<std::byte>> outputs_;
};

}  // namespace mxcheck
