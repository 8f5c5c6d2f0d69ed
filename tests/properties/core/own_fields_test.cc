#include "properties/core/own_fields.h"

#include <gtest/gtest.h>

#include "properties/core/case.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
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
