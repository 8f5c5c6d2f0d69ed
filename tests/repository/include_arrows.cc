#include "tests/repository/rules.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace mxcheck::repository {
namespace {

const Arrow* arrow_of(std::string_view path, const std::vector<Arrow>& arrows) {
  const Arrow* longest = nullptr;
  for (const Arrow& arrow : arrows) {
    if (path.starts_with(arrow.from) && (longest == nullptr || arrow.from.size() > longest->from.size())) {
      longest = &arrow;
    }
  }
  return longest;
}

// Findings of a text: the includes that `looked_at` takes and that the arrow of the path does not allow.
template <class LookedAt>
std::vector<Finding> findings_of(std::string_view path, std::string_view text, const std::vector<Arrow>& arrows,
                                 LookedAt looked_at) {
  const Arrow* arrow = arrow_of(path, arrows);
  if (arrow == nullptr) return {};
  std::vector<std::string_view> allowed = arrow->to;
  const std::size_t own = path.find('/', arrow->from.size());
  if (arrow->own_folder && own != std::string_view::npos) allowed.push_back(path.substr(0, own + 1));
  std::vector<Finding> findings;
  for (const Include& include : includes_of(text)) {
    if (looked_at(include) && !starts_with_any(include.name, allowed)) {
      findings.push_back({include.line, std::string(path) + " must not include " + include.name});
    }
  }
  return findings;
}

}  // namespace

const std::vector<Arrow>& folder_arrows() {
  static const std::vector<Arrow> all{
      {"numerics/", {"numerics/"}},
      {"reference/", {"reference/", "numerics/"}},
      {"emulation/", {"emulation/", "numerics/"}},
      {"bindings/", {"bindings/", "numerics/", "reference/", "mxcheck_version.h"}},
      // The SIMD library as any candidate, for large tensors: the tool and the C interface call it.
      {"bindings/simd/", {"bindings/simd/", "numerics/", "reference/", "kernels/candidate.h"}},
      // The worker of a candidate's process, which an interpreter's process enters.
      {"bindings/worker/",
       {"bindings/worker/", "numerics/", "properties/process/", "kernels/candidate.h", "kernels/candidate_layer.h",
        "kernels/candidate_matmul.h", "kernels/candidate_moe.h", "kernels/candidate_route.h"}},
      {"goldens/", {"goldens/", "numerics/", "reference/"}},
      {"pages/", {"pages/", "goldens/json/"}},
      {"trainer/",
       {"trainer/", "pages/", "goldens/", "numerics/", "reference/", "mxcheck_version.h", "kernels/train.h"}},
      {"properties/",
       {"properties/", "pages/", "reference/", "goldens/", "numerics/", "kernels/candidate.h",
        "kernels/candidate_layer.h", "kernels/candidate_matmul.h", "kernels/candidate_moe.h",
        "kernels/candidate_route.h", "mxcheck_version.h"}},
      {"kernels/",
       {"kernels/common/", "kernels/candidate.h", "kernels/candidate_layer.h", "kernels/candidate_matmul.h",
        "kernels/candidate_moe.h", "kernels/candidate_route.h", "kernels/train.h"},
       true},
      // The body of the thin layer without a card, and the launches of the kernels on it.
      {"kernels/sm100/",
       {"kernels/sm100/", "kernels/common/", "kernels/candidate.h", "kernels/candidate_matmul.h", "emulation/"}},
      // As users have them: the C interface, or the installed headers (docs/library.md).
      {"examples/", {"kernels/candidate.h", "kernels/candidate_matmul.h", "kernels/candidate_route.h"}},
      {"examples/cpp/", {"mxcheck/"}},
  };
  return all;
}

const std::vector<Arrow>& property_arrows() {
  static const std::vector<Arrow> all{
      {"properties/core/", {"properties/core/"}},
      // Kinds of goldens are in the folders of their operations, and listed in one place.
      {"properties/goldens/", {"properties/core/", "properties/goldens/"}},
      {"properties/goldens/registry", {"properties/goldens/", "properties/operations/"}},
      // The GPU model's C interface: the child loads it, and what claims to be a model's answer is told in its terms.
      {"properties/gpu_model/", {"properties/gpu_model/"}},
      {"properties/process/", {"properties/core/", "properties/process/", "properties/gpu_model/gpu_model.h"}},
      // An operation knows no other operation; their registry alone knows all.
      {"properties/operations/", {"properties/core/", "properties/goldens/", "properties/gpu_model/gpu_model.h"}, true},
      // Exceptions: what operations on scaled blocks share; statements about two of them; and cast, whose problem is
      // quantize's.
      {"properties/operations/scaled_blocks/",
       {"properties/core/", "properties/goldens/", "properties/operations/scaled_blocks/"}},
      {"properties/operations/quantize/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/quantize/",
        "properties/operations/dequantize/problem.h", "properties/operations/scale_layout/problem.h"}},
      {"properties/operations/dequantize/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/dequantize/"}},
      {"properties/operations/scale_layout/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/scale_layout/"}},
      {"properties/operations/cast/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/cast/",
        "properties/operations/quantize/problem.h"}},
      // quantize_transposed is drawn, described and shrunk as those are.
      {"properties/operations/layer/",
       {"properties/core/", "properties/goldens/", "properties/operations/scaled_blocks/",
        "properties/operations/layer/"}},
      // A layer's tensors are described as those of its steps, and its table is theirs.
      {"properties/operations/moe/",
       {"properties/core/", "properties/goldens/", "properties/operations/moe/",
        "properties/operations/layer/definitions.h", "properties/operations/layer/golden.h",
        "properties/operations/layer/tensors.h", "properties/operations/router/golden.h"}},
      {"properties/operations/registry", {"properties/core/", "properties/operations/"}},
      {"properties/statements/", {"properties/core/", "properties/statements/"}},
      // Goldens and black boxes are explained by the tables and problems of their operations.
      {"properties/diagnosis/",
       {"properties/core/", "properties/diagnosis/", "properties/goldens/", "properties/operations/layer/definitions.h",
        "properties/operations/layer/steps.h", "properties/operations/quantize/problem.h",
        "properties/operations/router/golden.h", "properties/operations/scaled_blocks/definitions.h"}},
      {"properties/identify/",
       {"properties/core/", "properties/identify/", "properties/operations/matmul/definitions.h",
        "properties/operations/router/definitions.h", "properties/operations/scaled_blocks/definitions.h"}},
      // A policy of a library is posed as the gate poses it, with inputs of identify's own.
      {"properties/identify/library/",
       {"properties/core/", "properties/process/", "properties/identify/", "properties/operations/matmul/fields.h",
        "properties/operations/router/fields.h", "properties/operations/scaled_blocks/fields.h"}},
      {"properties/records/", {"properties/core/", "properties/process/", "properties/records/"}},
      {"properties/gate/", {"properties/core/", "properties/process/", "properties/records/", "properties/gate/"}},
      {"properties/merge/",
       {"properties/core/", "properties/process/", "properties/records/", "properties/gate/", "properties/merge/"}},
      {"properties/report/",
       {"properties/core/", "properties/process/", "properties/records/", "properties/gate/", "properties/report/"}},
  };
  return all;
}

std::vector<Finding> forbidden_includes(std::string_view path, std::string_view text) {
  static constexpr std::array<std::string_view, 13> kOurs{
      "bindings/", "numerics/", "reference/", "goldens/", "kernels/", "properties/", "benchmarks/",
      "examples/", "tools/",    "tests/",     "fuzz/",    "mxcheck/", "pages/"};
  return findings_of(path, text, folder_arrows(), [](const Include& include) {
    // A name without a folder is a neighbour, which this tree does not use, or generated; of others come "hwy/..." too.
    const bool bare = include.quoted && include.name.find('/') == std::string::npos;
    return bare || starts_with_any(include.name, kOurs) || include.name.find("..") != std::string::npos;
  });
}

std::vector<Finding> forbidden_group_includes(std::string_view path, std::string_view text) {
  return findings_of(path, text, property_arrows(),
                     [](const Include& include) { return include.name.starts_with("properties/"); });
}

}  // namespace mxcheck::repository
