// What packed order and the order of softmax and top-k change and what they do not, names, and everything refused.

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "reference/router/router.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"

namespace mxcheck {
namespace {

using test::bits;
using test::fp32_matrix;
using test::router_of;
using test::Row;
using test::TestMatrix;
using test::thrown_by;

using Experts = std::vector<std::int32_t>;

Experts experts_of(std::string_view name, std::int64_t top_k, const TestMatrix& matrix) {
  return route(router_of(name, top_k), matrix.view()).experts;
}

std::set<std::int32_t> as_set(const Experts& experts) { return {experts.begin(), experts.end()}; }

TEST(PackedOrder, of_fp32_is_another_set_where_values_differ_in_the_low_bits) {
  const TestMatrix row = fp32_matrix(1, 4, {1, 1 + 0x1p-23F, 0, 0});
  EXPECT_EQ(experts_of("topk-softmax", 1, row), Experts{1});
  EXPECT_EQ(experts_of("topk-softmax-packed", 1, row), Experts{0});
  // The same below zero: the larger of the two is -1, at index 1.
  const TestMatrix negative = fp32_matrix(1, 4, {-1 - 0x1p-23F, -1, -9, -9});
  EXPECT_EQ(experts_of("topk-softmax", 1, negative), Experts{1});
  EXPECT_EQ(experts_of("topk-softmax-packed", 1, negative), Experts{0});
}

TEST(PackedOrder, of_fp32_weighs_values_with_cleared_bits) {
  const float x = 1 + 3 * 0x1p-23F;  // two experts: one bit is cleared
  const Routes exact = route(router_of("topk-softmax", 2), fp32_matrix(1, 2, {1, x}).view());
  const Routes packed = route(router_of("topk-softmax-packed", 2), fp32_matrix(1, 2, {1, x}).view());
  const float e = exp_rn(-0x1p-22F);
  EXPECT_EQ(packed.experts, (Experts{1, 0}));
  EXPECT_EQ(packed.weights, (Row{1 / (1 + e), e / (1 + e)}));
  EXPECT_NE(bits(packed.weights), bits(exact.weights));
}

TEST(PackedOrder, of_bf16_is_the_order) {
  std::mt19937 engine(17);
  for (const std::int64_t experts : {2, 7, 64, 129, 512}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < 40 * experts; ++i) {  // few values, so that most tie
      values.push_back(static_cast<float>(static_cast<int>(engine() % 64) - 32) * 0.125F);
    }
    const TestMatrix matrix(Format::bf16, 40, experts, values);
    for (const std::int64_t k : {std::int64_t{1}, (experts + 1) / 2, experts}) {
      const Routes exact = route(router_of("topk-softmax", k), matrix.view());
      const Routes packed = route(router_of("topk-softmax-packed", k), matrix.view());
      EXPECT_EQ(packed.experts, exact.experts);
      EXPECT_EQ(bits(packed.weights), bits(exact.weights));
    }
  }
}

// A BF16 keeps its value when 16 bits below it are overwritten: every pair of neighbours, both ways round.
TEST(PackedOrder, of_every_bf16_and_its_neighbour_is_the_order) {
  std::vector<float> values;
  for (std::uint32_t code = 0; code < 0xFF7F; ++code) {
    const float x = std::bit_cast<float>(code << 16);
    const float y = std::bit_cast<float>((code + 1) << 16);
    if (!std::isfinite(x) || !std::isfinite(y) || code == 0x8000) continue;
    for (const float v : {x, y, y, x}) values.push_back(v);
  }
  const TestMatrix matrix(Format::bf16, std::ssize(values) / 2, 2, values);
  EXPECT_EQ(experts_of("topk-softmax-packed", 2, matrix), experts_of("topk-softmax", 2, matrix));
}

TEST(PackedOrder, puts_negative_zeros_behind_zeros_and_in_reverse) {
  const TestMatrix row(Format::bf16, 1, 4, {-0.0F, 0, -0.0F, 0});
  EXPECT_EQ(experts_of("topk-softmax", 4, row), (Experts{0, 1, 2, 3}));
  EXPECT_EQ(experts_of("topk-softmax-packed", 4, row), (Experts{1, 3, 2, 0}));
}

TEST(SoftmaxFirst, can_make_equal_what_logits_told_apart) {
  const TestMatrix row = fp32_matrix(1, 2, {0, 0x1p-30F});
  EXPECT_EQ(experts_of("topk-softmax", 1, row), Experts{1});
  EXPECT_EQ(experts_of("softmax-topk-renorm", 1, row), Experts{0});
}

// Where the kept are the same, both start from the same exp(d), for the row's largest is kept. With u = 2^-24,
// topk-softmax adds K of them ((K - 1) u) and divides (u); the other divides by S (u), adds (K - 1) and divides, on
// both sides of the quotient: K + 2. Together 2K + 2, and 1 for products of errors.
TEST(SoftmaxFirst, renormalized_equals_softmax_of_the_kept_within_rounding_but_not_in_bits) {
  std::mt19937 engine(23);
  std::vector<float> values;
  for (int i = 0; i < 2000 * 32; ++i) values.push_back(static_cast<float>(engine() % 20000) * 1e-3F - 10);
  const TestMatrix matrix = fp32_matrix(2000, 32, values);
  for (const std::int64_t k : {1, 2, 8}) {
    const Routes last = route(router_of("topk-softmax", k), matrix.view());
    const Routes first = route(router_of("softmax-topk-renorm", k), matrix.view());
    std::size_t differ = 0;
    double worst = 0;
    for (std::size_t t = 0; t < 2000; ++t) {
      const auto begin = static_cast<std::ptrdiff_t>(t) * k;
      const Experts a(last.experts.begin() + begin, last.experts.begin() + begin + k);
      const Experts b(first.experts.begin() + begin, first.experts.begin() + begin + k);
      if (as_set(a) != as_set(b)) continue;
      for (std::size_t i = t * static_cast<std::size_t>(k); i < (t + 1) * static_cast<std::size_t>(k); ++i) {
        const double x = last.weights[i];
        const double y = first.weights[i];
        differ += x != y;
        worst = std::max(worst, std::fabs(x - y) / x);
      }
    }
    EXPECT_LE(worst, static_cast<double>(2 * k + 3) * 0x1p-24) << k;
    EXPECT_TRUE(k != 8 || differ > 100) << differ;
  }
}

TEST(Variants, have_names_and_unknown_ones_are_refused_with_the_list) {
  std::set<std::string_view> names;
  for (const RouterVariant& v : all_router_variants()) {
    EXPECT_EQ(&router_variant_named(v.name), &v);
    EXPECT_FALSE(v.meaning.empty());
    names.insert(v.name);
  }
  EXPECT_EQ(names.size(), 9U);
  const test::Thrown t = thrown_by([] { router_variant_named("topk"); });
  EXPECT_EQ(t.kind, ErrorKind::usage);
  EXPECT_EQ(t.text,
            "unknown router 'topk'; known are topk-softmax, topk-softmax-packed, softmax-topk, softmax-topk-renorm, "
            "sigmoid, sigmoid-raw, sigmoid-tiny-first, sqrtsoftplus, sqrtsoftplus-raw");
}

struct Refused {
  std::function<void(Router&)> change;
  std::string text;
};

TEST(Refused, routers_that_do_not_fit) {
  const TestMatrix m = fp32_matrix(2, 8, Row(16, 1.0F));
  const Row seven(7, 0.0F);
  const std::vector<Refused> cases{
      {[](Router& r) { r.variant = nullptr; }, "a router without a variant: must have one"},
      {[](Router& r) { r.top_k = 0; }, "top_k 0: must be from 1 to the 8 experts"},
      {[](Router& r) { r.top_k = 9; }, "top_k 9: must be from 1 to the 8 experts"},
      {[](Router& r) { r.groups = -1; }, "groups -1: must be 0 (none) or more"},
      {[](Router& r) { r.groups_kept = 1; }, "groups_kept 1 without groups: must be 0"},
      {[](Router& r) { r.groups = 3, r.groups_kept = 1; }, "groups 3: must divide the 8 experts"},
      {[](Router& r) { r.groups = 16, r.groups_kept = 1; }, "groups 16: must divide the 8 experts"},
      {[](Router& r) { r.groups = 4; }, "groups_kept 0: must be from 1 to the 4 groups"},
      {[](Router& r) { r.groups = 4, r.groups_kept = 5; }, "groups_kept 5: must be from 1 to the 4 groups"},
      {[](Router& r) { r.groups = 4, r.groups_kept = 1, r.top_k = 3; },
       "top_k 3: must be at most the 2 experts of 1 groups"},
      {[&](Router& r) { r.bias = seven; }, "bias of 7 values: must be one of each of the 8 experts"},
  };
  for (const Refused& c : cases) {
    Router router = router_of("topk-softmax", 2);
    c.change(router);
    for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
             [&] { route(router, m.view()); }, [&] { router_scores(router, m.view()); },
             [&] { route_backward(router, m.view(), {}, {}, 0); }}) {
      const test::Thrown t = thrown_by(call);
      EXPECT_EQ(t.kind, ErrorKind::usage);
      EXPECT_EQ(t.text, c.text);
    }
  }
}

TEST(Refused, matrices_and_sizes_beyond_reason) {
  const Router router = router_of("topk-softmax", 1);
  const std::byte nothing{};
  const std::byte* data = &nothing;  // never read
  const auto refuse = [&](const Router& r, const MatrixView& m, ErrorKind kind, std::string_view text) {
    const test::Thrown t = thrown_by([&] { route(r, m); });
    EXPECT_EQ(t.kind, kind);
    EXPECT_NE(t.text.find(text), std::string::npos) << t.text;
  };
  refuse(router, {Format::e4m3, data, 1, 1, 1}, ErrorKind::usage, "must be fp32, bf16 or fp16");
  refuse(router, {Format::fp32, data, 1, 2, 1}, ErrorKind::usage, "row stride");
  refuse(router, {Format::fp32, nullptr, 1, 1, 1}, ErrorKind::usage, "without data");
  refuse(router, {Format::fp32, nullptr, 3, 0, 0}, ErrorKind::usage, "top_k 1: must be from 1 to the 0 experts");
  refuse(router, {Format::fp32, data, 1, std::int64_t{1} << 31, std::int64_t{1} << 31}, ErrorKind::usage, "fewer than");
  refuse(router_of("topk-softmax-packed", 1), {Format::fp32, data, 1, (1 << 23) + 1, (1 << 23) + 1}, ErrorKind::usage,
         "has room for 2^23");
  refuse(router, {Format::bf16, data, std::int64_t{1} << 61, 1, 1}, ErrorKind::environment, "no memory");
}

TEST(Refused, nan_and_infinities_naming_the_first) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Row values(3000 * 32, 1.0F);
  values[2500 * 32 + 1] = kNaN;
  values[2000 * 32 + 7] = kNaN;
  values[2000 * 32 + 9] = kNaN;
  const TestMatrix m = fp32_matrix(3000, 32, values);
  values[1000 * 32 + 5] = -kInf;
  const TestMatrix with_inf = fp32_matrix(3000, 32, values);
  for (const int threads : {1, 2, 5}) {
    const auto text_of = [&](const Router& r, const TestMatrix& matrix) {
      const test::Thrown t = thrown_by([&] { route(r, matrix.view(), threads); });
      EXPECT_EQ(t.kind, ErrorKind::input);
      EXPECT_EQ(thrown_by([&] { router_scores(r, matrix.view(), threads); }).text, t.text);
      EXPECT_EQ(thrown_by([&] { route_backward(r, matrix.view(), {}, {}, 0, threads); }).text, t.text);
      return t.text;
    };
    const std::string tail = ": this router takes none (nan=refuse); remove it, or let NaN come last";
    EXPECT_EQ(text_of(router_of("sigmoid", 2), m), "NaN at row 2000, column 7" + tail);
    EXPECT_EQ(text_of(router_of("sigmoid", 2), with_inf), "NaN at row 2000, column 7" + tail);
    const std::string finite = ": packed order takes finite logits alone";
    EXPECT_EQ(text_of(router_of("topk-softmax-packed", 2), with_inf), "Inf at row 1000, column 5" + finite);
    EXPECT_EQ(text_of(router_of("topk-softmax-packed", 2, NanLogits::last), m), "NaN at row 2000, column 7" + finite);
    EXPECT_NO_THROW(route(router_of("sigmoid", 2, NanLogits::last), with_inf.view(), threads));
  }
}

TEST(Refused, nan_in_the_bias_and_sums_that_packed_order_cannot_hold) {
  const Row bias{0, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()};
  const TestMatrix m = fp32_matrix(2, 3, Row(6, 3e38F));
  Router router = router_of("topk-softmax", 1);
  router.bias = bias;
  test::Thrown t = thrown_by([&] { route(router, m.view()); });
  EXPECT_EQ(t.kind, ErrorKind::input);
  EXPECT_EQ(t.text,
            "NaN in the bias of expert 1: this router takes none (nan=refuse); remove it, or let NaN come last");
  router.nan = NanLogits::last;
  EXPECT_EQ(route(router, m.view()).experts, (Experts{0, 0}));

  const Row large{0, 0, 3e38F};
  router = router_of("topk-softmax-packed", 1);
  router.bias = large;
  t = thrown_by([&] { route(router, m.view()); });
  EXPECT_EQ(t.kind, ErrorKind::input);
  EXPECT_EQ(t.text, "row 0, column 2: with its bias no finite number, and packed order takes those alone");
}

}  // namespace
}  // namespace mxcheck
