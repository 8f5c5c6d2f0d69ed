#include "properties/core/policy.h"

#include <gtest/gtest.h>

#include "properties/core/case.h"
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

namespace {

struct Mine {
  int depth = 3;
  friend bool operator==(const Mine&, const Mine&) = default;
};
struct Other {
  int depth = 3;
  friend bool operator==(const Other&, const Other&) = default;
};

TEST(OwnFields, nothing_set_reads_as_the_default) {
  const OwnFields none;
  EXPECT_EQ(none.get<Mine>().depth, 3);
  OwnFields same;
  same.edit<Mine>().depth = 3;
  EXPECT_EQ(none, same);
  EXPECT_EQ(same, none);
  same.edit<Mine>().depth = 4;
  EXPECT_NE(none, same);
  EXPECT_NE(same, none);
  EXPECT_EQ(none, OwnFields{});
}

TEST(OwnFields, a_copy_is_a_value_of_its_own) {
  OwnFields a;
  a.edit<Mine>().depth = 5;
  OwnFields b = a;
  EXPECT_EQ(a, b);
  b.edit<Mine>().depth = 6;
  EXPECT_EQ(a.get<Mine>().depth, 5);
  EXPECT_EQ(b.get<Mine>().depth, 6);
  EXPECT_NE(a, b);
  b.edit<Mine>().depth = 5;
  EXPECT_EQ(a, b);  // by value, wherever it is held
  Case c, d;
  c.own = a;
  EXPECT_NE(c, d);
  d.own = b;
  EXPECT_EQ(c, d);
}

TEST(OwnFields, of_another_operation_are_not_read_and_not_equal) {
  OwnFields a, b;
  a.edit<Mine>().depth = 3;
  b.edit<Other>().depth = 3;
  EXPECT_NE(a, b);
  test::expect_error(ErrorKind::internal, "the fields of another operation", [&] { (void)a.get<Other>(); });
  test::expect_error(ErrorKind::internal, "the fields of another operation", [&] { (void)a.edit<Other>(); });
  EXPECT_EQ(a.get<Mine>().depth, 3);
}

}  // namespace

}  // namespace mxcheck
