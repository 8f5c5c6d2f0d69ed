#pragma once
// The cause of a failing statement: the rows of tables of definitions and slips that give every bit of every failing
// case, and where they show.
//
// A row explains a case where each wrong element is as the row has it. Where it would change elements that are right,
// a rule must part them from the wrong ones: "rounding toward zero (truncation), only from column 512 on". A row that
// no rule confines is no cause, however many wrong elements it gives.
//
//   Causes causes;
//   causes.add(explanations_of(outputs, problem.definitions(observed), general_slips(problem, outputs, poison)));
//   ... and so for each further case that fails
//   causes.named()   // {"rounding toward zero (truncation), only from column 512 on"}; none: nothing explains all

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "properties/core/definitions.h"

namespace mxcheck {

// A row that explains one case.
struct Explanation {
  std::string name;
  std::string where = {};  // "only from column 512 on"; empty: it shows wherever it changes an element
  // where, and other words for it that a larger case may share: "only in the last element of each row"
  std::vector<std::string> places = {};
  std::string remark = {};    // about outputs that follow from the wrong one, but not to the bit
  std::int64_t shown = 0;     // wrong elements that it gives
  std::int64_t hidden = 0;    // right elements that it would change
  bool is_scattered = false;  // where: no range of rows, columns or elements
  bool is_unruly = false;     // where: no rule at all; other cases must bear the row out
  bool is_general = false;    // of a slip that any operation may have, not of this operation's own table
  bool is_told = false;       // by its bits alone: memory that was not written
  bool is_silent = false;     // nothing is known: the row is not defined for this case, or it is too large for it
};

// The rows that explain these outputs, in the order of the tables: the operation's own before the general ones.
std::vector<Explanation> explanations_of(std::span<const AnswerTensor> outputs, const Table& own, const Table& general);

// The rule that parts the elements in which a slip shows from the others that it would change; both are indices of
// elements, ascending and not empty.
struct Where {
  std::string text;  // "from column 512 on"; empty: no simple rule does
  bool is_scattered = false;
  std::vector<std::string> also = {};  // rules by the shape: "in the last row"
};
Where where_shown(const AnswerTensor& output, std::span<const std::int64_t> shown,
                  std::span<const std::int64_t> hidden);

// A row that gives every bit of the failing cases of one statement.
struct NamedCause {
  std::string row;
  std::string text;                      // with the first of the rules
  int cases = 0;                         // that it gives
  std::int64_t elements = 0;             // of these
  bool is_confined = false;              // it would change elements that are right
  std::vector<std::string> places = {};  // the rules that these cases share: "only in row 3"

  // True if it gives a further case too, by one of its rules, which then are those that this case shares.
  bool takes(const Explanation& of_case);
};

// The explanations of the failing cases of one statement.
class Causes {
 public:
  void add(std::vector<Explanation> of_case, std::int64_t elements = 0);
  // A case whose outputs are right, and the rows that would change them.
  void add_right(std::span<const std::string> changing);
  [[nodiscard]] int cases() const { return cases_; }
  // Names that explain every case so far: a further case need be compared with no other rows.
  // is_computed: without names of which nothing is known in any case.
  [[nodiscard]] std::vector<std::string> of_every_case(bool is_computed = false) const;

  // The best names of every case: an operation's own before general ones, everywhere before confined. A confined or a
  // general one needs some elements to be believed, or one rule in several cases: by chance a row gives one or two.
  [[nodiscard]] std::vector<std::string> named() const;
  // All of every case but those without a rule, the best or not: one that few elements support may be that of another
  // statement.
  [[nodiscard]] std::vector<NamedCause> explaining() const;
  // The failing cases that the first of these explains, and their elements.
  struct Extent {
    int cases = 0;
    std::int64_t elements = 0;
  };
  [[nodiscard]] Extent extent() const;
  // True if further cases can't make the answer clearer.
  [[nodiscard]] bool is_settled() const;

 private:
  struct Seen {
    Explanation first;
    int cases = 0;   // that it explains, or says nothing about
    Extent extent;   // of the first kind
    int spared = 0;  // right cases that it would change
    std::int64_t shown = 0, hidden = 0, most_in_a_case = 0;
    int confined = 0;                 // cases that need a rule
    std::vector<std::string> places;  // rules that part the elements in each of these
    std::string remark;
    bool scattered = false;
    int unruly = 0;  // cases without a rule
    [[nodiscard]] bool is_believed() const;
    [[nodiscard]] std::string text() const;
    [[nodiscard]] std::array<int, 6> rank() const;
  };
  [[nodiscard]] std::vector<const Seen*> best() const;
  [[nodiscard]] bool is_of_every_case(const Seen& s) const { return s.cases == cases_ && 2 * s.extent.cases >= cases_; }

  std::vector<Seen> seen_;
  int cases_ = 0;
};

}  // namespace mxcheck
