#include "properties/identify/tree/tree.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "numerics/error.h"

namespace mxcheck {
namespace {

TEST(Tree, is_written_and_drawn) {
  EXPECT_EQ(pairwise(4).text(), "((0 1) (2 3))");
  EXPECT_EQ(fused_steps(64, 32, false).text(), "((0..31) 32..63)");
  EXPECT_EQ(ascending(3).text(), "((0 1) 2)");
  EXPECT_EQ(node({leaf(0), leaf(4), leaf(8), leaf(12)}).text(), "(0..12 by 4)");
  EXPECT_EQ(node({leaf(0), leaf(1), leaf(2)}).text(), "(0 1 2)");
  EXPECT_EQ(pairwise(2).dot(),
            "digraph sum {\n  rankdir=BT;\n  edge [dir=back];\n  n0 [label=\"+\"];\n  n0 -> n1;\n"
            "  n1 [label=\"0\", shape=box];\n  n0 -> n2;\n  n2 [label=\"1\", shape=box];\n}\n");
}

TEST(Tree, of_sizes_that_no_tree_has_is_none) {
  const int sizes[] = {1, 2, 2, 2, 1, 2, 2, 2, 1};  // every pair meets alone
  EXPECT_FALSE(tree_of_sizes(3, sizes));
}

const std::vector<SumTree>& some() {
  static const std::vector<SumTree> all{ascending(48),
                                        descending(48),
                                        pairwise(48),
                                        strided(48, 4, false),
                                        strided(48, 8, true),
                                        split(48, 3),
                                        fused_steps(48, 16, false),
                                        promoted(128, 64, 32),
                                        leaf(0),
                                        pairwise(5),
                                        node({leaf(3), node({leaf(0), leaf(7)}), leaf(9)})};
  return all;
}

// Orders of libraries in use, by the trees that they have (docs/identify.md).
TEST(Tree, orders_of_libraries_have_names) {
  const std::pair<const char*, const char*> all[] = {
      {"((((0 8) (4 12)) ((2 10) (6 14))) (((1 9) (5 13)) ((3 11) (7 15))))",
       "the upper half added to the lower, again and again"},
      {"(((((0 4) 8) 12) (((2 6) 10) 14)) ((((1 5) 9) 13) (((3 7) 11) 15)))",
       "strided by 4, the upper half of the lanes added to the lower"},
      {"(((((0 1) 3) 2) 5) 4)", "ascending by pairs, the second of each first"},
      {"((((0 4) 8) ((2 6) 10)) (((1 5) 9) ((3 7) 11)))",
       "strided by 4, the upper half of the lanes added to the lower"}};
  for (const auto& [tree, name] : all) EXPECT_EQ(shape_of(parse_tree(tree)), name) << tree;
  EXPECT_EQ(shape_of(blocked_pairwise(256)),
            "pairwise down to blocks of 128, each strided by 8, the lanes added pairwise");
  EXPECT_EQ(shape_of(unrolled_lanes(128, 8, 4)), "strided by 32, each 4 of 8 lanes added ascending, then these");
  EXPECT_EQ(unrolled_lanes(8, 2, 2).text(), "(((0 4) (2 6)) ((1 5) (3 7)))");
}

TEST(Tree, is_read_as_it_was_written) {
  for (const SumTree& tree : some()) EXPECT_EQ(parse_tree(tree.text()), tree) << tree.text();
  EXPECT_EQ(parse_tree(" ( 2 (1 0) )"), node({leaf(2), node({leaf(0), leaf(1)})}));
  for (const char* wrong :
       {"", "(", "(0", "(0)", "(0 1))", "x", "(0 -1)", "(5..2)", "(0..8 by 0)", "(0 99999999999)", "0 1"}) {
    try {
      parse_tree(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(e.what()).find("at place"), std::string::npos);
    }
  }
  EXPECT_THROW(parse_tree(std::string(100'000, '(')), Error);
}

// Every term is in one box, and every sum has a circle or is a box of its chain.
TEST(Tree, is_drawn_with_every_term_once) {
  for (const SumTree& tree : some()) {
    const std::string svg = tree.svg("a <title> & more");
    EXPECT_NE(svg.find("a &lt;title&gt; &amp; more"), std::string::npos);
    std::multiset<int> drawn;
    for (std::size_t at = svg.find("data-terms=\""); at != std::string::npos; at = svg.find("data-terms=\"", at + 1)) {
      std::istringstream terms(svg.substr(at + 12, svg.find('"', at + 12) - at - 12));
      for (int term = 0; terms >> term;) drawn.insert(term);
    }
    EXPECT_EQ(drawn.size(), static_cast<std::size_t>(tree.terms())) << tree.text();
    EXPECT_EQ(std::set<int>(drawn.begin(), drawn.end()).size(), drawn.size()) << tree.text();
    EXPECT_EQ(std::count(svg.begin(), svg.end(), '<'), std::count(svg.begin(), svg.end(), '>'));
  }
}

TEST(Tree, chains_and_runs_are_drawn_as_one_box) {
  const auto has = [](const SumTree& tree, const std::string& text) {
    return tree.svg("").find(text) != std::string::npos;
  };
  EXPECT_TRUE(has(ascending(48), ">0..47, one after another</text>"));
  EXPECT_TRUE(has(descending(48), ">47..0, one after another</text>"));
  EXPECT_TRUE(has(strided(48, 4, false), ">1..45 by 4, one after another</text>"));
  EXPECT_TRUE(has(fused_steps(48, 16, false), ">16..31</text>"));
  EXPECT_TRUE(has(fused_steps(48, 16, false), "<title>17 at once, rounded once</title>"));
  EXPECT_FALSE(has(pairwise(64), "one after another"));
}

}  // namespace
}  // namespace mxcheck
