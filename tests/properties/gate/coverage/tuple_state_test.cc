#include "properties/gate/coverage/tuple_state.h"

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(TupleState, states_are_written_and_read) {
  EXPECT_EQ(states_text({}), "");
  EXPECT_EQ(states_text({0, 0, 0, kChecked, kChecked | kPlanned}), "?3CD");
  std::vector<std::uint8_t> all;
  for (int state = 0; state < 64; ++state)
    all.insert(all.end(), static_cast<std::size_t>(1 + state % 12), static_cast<std::uint8_t>(state));
  EXPECT_EQ(states_from(states_text(all)), all);
  EXPECT_EQ(states_from(""), std::vector<std::uint8_t>{});
}

TEST(TupleState, what_is_no_list_of_states_is_refused) {
  for (const char* text : {"3", "?0", "!", "\x7f", "?99999999999999999999", "?16777217", "? 3"})
    expect_error(ErrorKind::input, "what was met of a domain: ", [&] { (void)states_from(text); });
}

TEST(TupleState, states_of_another_domain_are_not_added) {
  std::vector<std::uint8_t> states{kChecked, 0};
  add_to(states, {kPlanned, kRefused});
  EXPECT_EQ(states, (std::vector<std::uint8_t>{kChecked | kPlanned, kRefused}));
  expect_error(ErrorKind::input, "3 states where this mxcheck has 2", [&] { add_to(states, {0, 0, 0}); });
}

TEST(TupleState, bins_are_added_by_their_labels) {
  AxisCount axis{"rows", {{"0", 1, 2, 3}, {"1", 4, 5, 6}}};
  add_to(axis, {"rows", {{"1", 10, 20, 30}}});
  EXPECT_EQ(axis.bins[0].checked, 1);
  EXPECT_EQ(axis.bins[1].checked, 14);
  EXPECT_EQ(axis.bins[1].refused, 25);
  EXPECT_EQ(axis.bins[1].nothing_claimed, 36);
  expect_error(ErrorKind::input, "no bin '7' of rows", [&] { add_to(axis, {"rows", {{"7", 1, 0, 0}}}); });
}

}  // namespace
}  // namespace mxcheck
