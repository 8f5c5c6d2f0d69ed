#include "properties/operations/scaled_blocks/operation.h"

#include <utility>

#include "kernels/candidate.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/phases.h"
#include "properties/operations/quantize/problem.h"

namespace mxcheck {
namespace {

std::vector<ExpectedTensor> timed_answer(const Problem& p) {
  const InPhase answering(Phase::reference);
  return p.answer();
}

std::optional<Finding> cast_equals_reference(CheckContext& context, const Case& c) {
  const QuantizeProblem p(c);
  EqualityOptions options;  // a chunk of a whole domain
  if (c.data == Data::every_word) options.poison_of_large = kPoisons[c.seed >> 24 & 1];
  return equals_answer(context, p, timed_answer(p), options);
}

std::vector<Case> every_word(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  if (v.dtype == Format::bf16) cases.push_back(blocks_corner(v, 65536, 1, Data::every_word, 0));
  if (v.dtype != Format::fp32) return cases;
  if (suite == Suite::exhaustive) {
    constexpr std::uint64_t kChunk = std::uint64_t{1} << 24;
    for (std::uint64_t from = 0; from < (std::uint64_t{1} << 32); from += kChunk) {
      cases.push_back(blocks_corner(v, 1 << 14, 1 << 10, Data::every_word, from));
    }
    return cases;
  }
  // Zero, the smallest codes and their halves, the largest, and infinity, of either format, with either sign.
  for (std::uint64_t from : {0x00000000U, 0x37000000U, 0x3A800000U, 0x43E00000U, 0x47600000U, 0x7F800000U}) {
    for (std::uint64_t sign : {0x00000000U, 0x80000000U}) {
      cases.push_back(blocks_corner(v, 8192, 1, Data::every_word, ((from | sign) - 4096U) & 0xFFFFFFFFU));
    }
  }
  return cases;
}

}  // namespace

OperationModule cast_module() {
  ScaledBlocksTraits cast{"cast"};
  cast.can_be_asked = [](const Variant& v) {
    return blocks_of(v).layout == MXCHECK_COMPACT && blocks_of(v).block == BlockShape{1, 32};
  };
  cast.invalid_calls = []() -> std::vector<InvalidCall> {
    return disagreeing_extents({unknown_format(), unwanted_offsets(), unwanted_row_index()});
  };
  cast.has_experts = false, cast.takes_fp64 = true;
  static const OperationOf<QuantizeProblem, ScaledBlocksOperation> kCast(cast);
  std::vector<Statement> s(2);
  s[0] = blocks_equality("cast_equals_the_reference", "cast",
                         "codes without a scale are the reference's, byte for byte", "OFP8 1.0 section 5");
  s[0].check = cast_equals_reference;
  s[1].name = "every_word_is_cast_as_the_reference";
  s[1].sentence =
      "without a scale, each BF16 word (and, in the exhaustive suite, each of the 2^32 FP32 words) gets the "
      "reference's code";
  s[1].source = "OFP8 1.0 section 5";
  s[1].applies = [](const Variant& v, std::span<const Variant>) {
    return v.operation == "cast" && (v.dtype == Format::bf16 || v.dtype == Format::fp32);
  };
  s[1].check = cast_equals_reference;
  s[1].corners = every_word;
  return {{&kCast}, std::move(s)};
}

}  // namespace mxcheck
