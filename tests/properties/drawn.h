#pragma once
// Variants to draw cases of, and what holds of every case that is drawn or shrunk.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/operation.h"
#include "properties/gate/coverage/parts.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/common/matrix.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck::test {

inline const Statement& statement_named(std::string_view name) {
  for (const Statement& s : all_statements()) {
    if (s.name == name) return s;
  }
  throw Error(ErrorKind::internal, "no such statement");
}

inline const std::vector<Variant>& three_variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> made{{"quantize", Format::bf16}, {"quantize", Format::bf16}, {"quantize", Format::fp32}};
    blocks_of(made[0]) = {Format::e4m3, "rceil", {1, 32}, 0};
    blocks_of(made[1]) = {Format::e4m3, "rceil", {128, 128}, 0};
    blocks_of(made[2]) = {Format::e4m3, "rceil", {1, 0}, 1};
    return made;
  }();
  return all;
}

// A random case of one of these variants, which are of one operation, as the gate draws them.
inline Case draw_case(const Statement& s, std::span<const Variant> variants, const CandidateRunner& process,
                      Draw& draw) {
  const auto domain = operation_named(variants.front().operation).domain({s, variants, process});
  for (int tries = 0; tries < 100; ++tries) {
    if (auto c = domain->make(domain->of_variant(draw.below(variants.size())), domain->small_work(), draw)) return *c;
  }
  throw Error(ErrorKind::internal, "no case can be drawn");
}

// The text of a case that no call can pose, and a part of what is said of it.
struct RefusedCase {
  std::string text;
  const char* message;
};
inline void expect_refused(const std::vector<RefusedCase>& cases) {
  for (const RefusedCase& one : cases) {
    SCOPED_TRACE(one.text);
    expect_error(ErrorKind::usage, one.message, [&] { (void)parse_case(one.text); });
  }
}

inline void expect_well_formed(const Case& c) {
  EXPECT_EQ(parse_case(to_text(c)), c) << to_text(c);
  EXPECT_TRUE(c.stride == 0 || c.stride >= c.cols);
  if (!c.experts.empty()) {
    EXPECT_NO_THROW(check_offsets(c.experts, c.rows)) << to_text(c);
  }
  for (const Plant& p : c.plants) {
    EXPECT_TRUE(p.row < c.rows && p.col < c.cols) << to_text(c);
  }
}

// A candidate of which only its limits are asked, to make cases for.
class LimitsOnly final : public CandidateRunner {
 public:
  explicit LimitsOnly(OperationInfo operation) { info_.operations.push_back(std::move(operation)); }
  explicit LimitsOnly(std::span<const OperationInfo> operations) {
    info_.operations.assign(operations.begin(), operations.end());
  }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call&) override { return {}; }
  void restart() override {}

 private:
  CandidateInfo info_;
};

// Cases of the layers of production's models that these limits allow, and their coverage.
struct DrawnLayers {
  std::vector<Case> cases;
  CoverageReport report = {};
  std::int64_t most_work = 0;
};
inline DrawnLayers draw_layers(const Statement& s, const OperationInfo& limits, const std::vector<Variant>& variants,
                               Suite suite, std::uint64_t seed) {
  const LimitsOnly process(limits);
  const auto domain = operation_named(limits.name).domain({s, variants, process});
  LayerCovering layers(*domain, variants, domain->usual_work(suite), domain->most_work(suite));
  Draw draw(seed);
  DrawnLayers all{layers.cases(draw)};
  all.most_work = domain->most_work(suite);
  for (const Case& c : all.cases) layers.count(c, CaseFate::checked);
  layers.report(all.report);
  return all;
}

// The case that is left when a simpler one takes its place as long as one fails.
template <class Fails>
Case shrunk(Case c, const Fails& fails) {
  for (;;) {
    const std::vector<Case> simpler = operation_named(c.variant.operation).simpler(c, {});
    const auto next = std::find_if(simpler.begin(), simpler.end(), fails);
    if (next == simpler.end()) return c;
    c = *next;
  }
}

}  // namespace mxcheck::test
