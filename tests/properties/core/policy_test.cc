#include "properties/core/policy.h"

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

// A policy as a third party's interface would have it: more values and one more text behind mxcheck_policy.
struct Longer {
  mxcheck_policy base;
  double alpha;
  const char* router;
};

Longer sample() {
  Longer s{};
  s.base.format = "e4m3", s.base.recipe = "rceil", s.base.rows = 3, s.base.cols = 40;
  s.alpha = 0.5, s.router = "softmax-topk";
  return s;
}

TEST(Policy, comes_back_with_its_texts) {
  Policy p = pack(sample(), {offsetof(Longer, router)});
  const Policy copy = p;  // as through shared memory
  p = Policy{};
  const auto s = read<Longer>(copy);
  EXPECT_EQ(s.base.size, sizeof(Longer));
  EXPECT_STREQ(s.base.format, "e4m3");
  EXPECT_STREQ(s.base.recipe, "rceil");
  EXPECT_STREQ(s.router, "softmax-topk");
  EXPECT_EQ(s.base.cols, 40);
  EXPECT_EQ(s.alpha, 0.5);
  const auto beginning = read<mxcheck_policy>(copy);
  EXPECT_EQ(beginning.rows, 3);
  EXPECT_STREQ(beginning.format, "e4m3");
}

TEST(Policy, a_null_text_becomes_an_empty_one_and_a_long_one_is_cut) {
  mxcheck_policy from{};
  const std::string longer(100, 'x');
  from.recipe = longer.c_str();
  const Policy p = pack(from);
  EXPECT_STREQ(read<mxcheck_policy>(p).format, "");
  EXPECT_EQ(read<mxcheck_policy>(p).recipe, std::string(59, 'x'));
}

TEST(Policy, an_edit_changes_what_it_names_and_nothing_else) {
  Policy p = pack(sample(), {offsetof(Longer, router)});
  edit<mxcheck_policy>(p, [](mxcheck_policy& s) { s.cols += 1; });
  {
    const std::string temporary = "zceil";
    edit<mxcheck_policy>(p, [&](mxcheck_policy& s) { s.recipe = temporary.c_str(); });
  }
  const auto s = read<Longer>(p);
  EXPECT_EQ(s.base.cols, 41);
  EXPECT_EQ(s.base.rows, 3);
  EXPECT_STREQ(s.base.recipe, "zceil");
  EXPECT_STREQ(s.base.format, "e4m3");
  EXPECT_STREQ(s.router, "softmax-topk");
  EXPECT_EQ(s.alpha, 0.5);
}

TEST(Policy, of_a_shorter_struct_is_not_read_as_a_longer_one) {
  const Policy p = pack(sample().base);
  test::expect_error(ErrorKind::internal, "a policy of another operation", [&] { (void)read<Longer>(p); });
}

TEST(Policy, has_room_for_eight_texts) {
  const std::size_t at = offsetof(Longer, router);
  EXPECT_NO_THROW((void)pack(sample(), {at, at, at, at, at, at}));
  test::expect_error(ErrorKind::internal, "more texts", [&] { (void)pack(sample(), {at, at, at, at, at, at, at}); });
}

TEST(Policy, in_place_points_into_itself) {
  Policy p = pack(sample(), {offsetof(Longer, router)});
  const PolicyInPlace in_place(p);
  p = Policy{};
  const auto* s = static_cast<const Longer*>(static_cast<const void*>(in_place.get()));
  EXPECT_STREQ(s->base.recipe, "rceil");
  EXPECT_STREQ(s->router, "softmax-topk");
  EXPECT_EQ(in_place.get()->rows, 3);
}

}  // namespace
}  // namespace mxcheck
