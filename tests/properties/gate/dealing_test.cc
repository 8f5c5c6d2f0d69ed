// Shards: how they are written, and which cases of a run each has.

#include "properties/gate/dealing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "properties/gate/gate.h"
#include "properties/gate/statement_run.h"
#include "properties/gate/usual_work.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(Shard, is_written_from_1) {
  const Shard shard = parse_shard("2/4", "--shard");
  EXPECT_EQ(shard.index, 1);
  EXPECT_EQ(shard.count, 4);
  EXPECT_EQ(to_text(shard), "2/4");
  EXPECT_TRUE(parse_shard("1/1", "--shard").is_whole());
}

TEST(Shard, refuses_what_is_none) {
  for (const char* text : {"", "2", "/", "0/4", "5/4", "-1/4", "1/0", "1/-1", "1/10001", "1/4/4", " 1/4", "1/4x",
                           "+1/4", "1.0/4", "99999999999/99999999999"}) {
    expect_error(ErrorKind::usage, "--shard '" + std::string(text) + "' is not I/N",
                 [&] { (void)parse_shard(text, "--shard"); });
  }
}

const std::vector<Variant>& variants_of_toy() {
  static const std::vector<Variant> variants = [] {
    const test::Toy toy("");
    CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, {});
    return offered_variants(process);
  }();
  return variants;
}

// The dealings of a run to its shards.
std::vector<Dealing> dealt(int count, Suite suite, const std::string& only = "*") {
  const std::vector<const Statement*> selected = statements_named(only);
  std::vector<Dealing> dealings;
  for (int index = 0; index < count; ++index)
    dealings.emplace_back(Shard{index, count}, suite, 0, selected, variants_of_toy());
  return dealings;
}

std::int64_t owners_of_case(const std::vector<Dealing>& dealings, const std::string& text) {
  return std::count_if(dealings.begin(), dealings.end(), [&](const Dealing& d) { return d.owns_case(text); });
}

TEST(Dealing, gives_every_group_and_every_case_to_one_shard) {
  for (const int count : {1, 2, 3, 16, 1000}) {
    const std::vector<Dealing> dealings = dealt(count, Suite::quick);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(owners_of_case(dealings, "case " + std::to_string(i)), 1);
    for (const Statement* s : statements_named("*")) {
      for (const Variant& v : variants_of_toy()) {
        if (!s->applies(v, variants_of_toy()) || (s->data.empty() && !s->tally)) continue;
        ASSERT_EQ(std::count_if(dealings.begin(), dealings.end(),
                                [&](const Dealing& d) { return d.owns_group(*s, v.operation); }),
                  1)
            << s->name << " " << v.operation;
        break;
      }
    }
  }
}

TEST(Dealing, fills_shards_with_single_cases_up_to_the_same_seconds) {
  for (const Suite suite : {Suite::quick, Suite::full, Suite::exhaustive}) {
    for (const int count : {2, 3}) {
      const std::vector<double> seconds = dealt(count, suite).front().expected();
      ASSERT_EQ(seconds.size(), static_cast<std::size_t>(count));
      const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
      EXPECT_GT(*least, 0.99 * *most) << to_text(suite) << " " << count;
    }
  }
}

TEST(Dealing, gives_no_single_case_to_a_shard_whose_group_takes_longer_than_its_share) {
  const std::vector<Dealing> dealings = dealt(16, Suite::quick, "quantize_equals_the_reference");
  const Statement& s = *statements_named("quantize_equals_the_reference").front();
  const auto has_group =
      std::find_if(dealings.begin(), dealings.end(), [&](const Dealing& d) { return d.owns_group(s, "quantize"); });
  ASSERT_NE(has_group, dealings.end());
  std::vector<int> owned(dealings.size());
  for (int i = 0; i < 3000; ++i) {
    for (std::size_t d = 0; d < dealings.size(); ++d)
      owned[d] += dealings[d].owns_case("case " + std::to_string(i)) ? 1 : 0;
  }
  for (std::size_t d = 0; d < dealings.size(); ++d) {
    if (&dealings[d] == &*has_group) {
      EXPECT_EQ(owned[d], 0);
    } else {
      EXPECT_GT(owned[d], 3000 / 15 * 3 / 4);
      EXPECT_LT(owned[d], 3000 / 15 * 5 / 4);
    }
  }
}

TEST(Dealing, expects_the_seconds_of_the_run_in_all) {
  const std::vector<const Statement*> selected = statements_named("*");
  std::vector<const Statement*> planned;
  for (const Statement* s : selected) {
    const auto applies = [&](const Variant& v) { return s->applies(v, variants_of_toy()); };
    if (std::any_of(variants_of_toy().begin(), variants_of_toy().end(), applies)) planned.push_back(s);
  }
  const UsualWorks works(planned, Suite::full, 0);
  double whole = 0;
  for (const Statement* s : planned) whole += works.of(*s).seconds;
  const std::vector<double> seconds = dealt(7, Suite::full).front().expected();
  EXPECT_NEAR(std::accumulate(seconds.begin(), seconds.end(), 0.0), whole, 1e-2);
}

TEST(Dealing, of_a_whole_run_owns_all) {
  const Dealing whole = dealt(1, Suite::quick).front();
  EXPECT_TRUE(whole.owns_case("any"));
  EXPECT_TRUE(whole.owns_group(*statements_named("cast_equals_the_reference").front(), "cast"));
  EXPECT_TRUE(whole.expected().empty());
}

}  // namespace
}  // namespace mxcheck
