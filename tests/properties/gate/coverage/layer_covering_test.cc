#include "properties/gate/coverage/layer_covering.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{{"f", Format::bf16}, {"f", Format::fp32}, {"f", Format::fp16}};
  return all;
}

// Layers of 5, 7 and again 5 rows, of the last of which one use cannot be; two families of variants.
class ThreeLayers final : public Domain {
 public:
  ThreeLayers() {
    add_of_variant("x", word_bins({"bf16", "fp32", "fp16"}));
    threads_ = add_option("threads", extent_bins(std::vector<std::int64_t>{0, 1}, 1));
    for (const char* layer : {"a", "b", "c"}) {
      add_layer_use(layer, "rows");
      add_layer_use(layer, "all");
    }
    set_variants(variants());
  }
  [[nodiscard]] std::int64_t small_work() const override { return 100; }
  [[nodiscard]] std::int64_t most_work(Suite) const override { return 100; }
  [[nodiscard]] std::string family_of(const Variant& v) const override {
    return v.dtype == Format::fp32 ? "wide" : "narrow";
  }
  [[nodiscard]] bool is_of_layer(std::size_t use, const Case& c) const override {
    return c.rows == rows_of(use) && (use % 2 == 0 || c.cols == 8);
  }

 protected:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Case& c) const override {
    return {c.variant.dtype == Format::bf16 ? 0 : c.variant.dtype == Format::fp32 ? 1 : 2, c.threads};
  }
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return c.elements(); }
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t, int, Draw& draw) const override {
    Case c;
    c.variant = *draw_variant_in(wanted, draw);
    c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    return c;
  }
  [[nodiscard]] std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t, Draw&) const override {
    if (use == 5) return std::nullopt;  // another router than the variants'
    drawn.rows = rows_of(use), drawn.cols = use % 2 == 0 ? 1 : 8;
    return drawn;
  }

 private:
  static std::int64_t rows_of(std::size_t use) { return use / 2 == 1 ? 7 : 5; }
  int threads_;
};

CoverageReport report_of(const LayerCovering& layers) {
  CoverageReport r;
  layers.report(r);
  return r;
}

TEST(LayerCovering, each_use_is_met_and_equal_ones_share_a_case) {
  const ThreeLayers domain;
  LayerCovering layers(domain, variants(), 100);
  Draw draw(1);
  const std::vector<Case> cases = layers.cases(draw);
  EXPECT_EQ(cases.size(), 4U * 2);
  for (const Case& c : cases) layers.count(c, CaseFate::checked);
  const CoverageReport r = report_of(layers);
  EXPECT_TRUE(r.missed.empty());
  EXPECT_EQ(r.layer_uses.checked, 12);  // that of c's that cannot be made is a's, and met
  ASSERT_EQ(r.layers.bins.size(), 3U);
  EXPECT_EQ(r.layers.bins[0].label, "a");
  EXPECT_GT(r.layers.bins[1].checked, 0);
  EXPECT_EQ(r.layers.bins[0].checked, r.layers.bins[2].checked);  // of the same rows
}

TEST(LayerCovering, what_was_not_met_is_named_and_what_was_refused_is_tried_without_options) {
  const ThreeLayers domain;
  LayerCovering layers(domain, variants(), 100);
  Draw draw(1);
  EXPECT_EQ(layers.again(draw).size(), 0U);
  const std::vector<Case> cases = layers.cases(draw);
  EXPECT_FALSE(report_of(layers).missed.empty());
  EXPECT_TRUE(report_of(layers).missed[0].starts_with("layer a, rows with ")) << report_of(layers).missed[0];
  for (const Case& c : cases) layers.count(c, CaseFate::refused);
  EXPECT_TRUE(report_of(layers).missed.empty());
  EXPECT_EQ(report_of(layers).layer_uses.checked, 0);
  for (const Case& c : layers.again(draw)) {
    EXPECT_EQ(c.threads, 0);
    layers.count(c, CaseFate::checked);
  }
  EXPECT_EQ(report_of(layers).layer_uses.refused, 0);
}

}  // namespace
}  // namespace mxcheck
