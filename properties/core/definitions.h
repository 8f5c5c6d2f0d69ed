#pragma once
// Finds the definition, or the named slip, that gives these bits: the row of an operation's table, and the one matcher.
//
// A table is a list of rows, made for one problem: properties/operations/*/definitions.h. A row has a name, says where
// it comes from, and gives the bytes that each output would have. Tables are asked by the gate (a finding's matches),
// by `golden verify`, by `layer --against` and by identify, each through one of three questions:
//
//   names_that_explain(answers, table)           rows that give every output of one call
//   likeliest_causes(output, table, 1, "scale")  rows that give most of what is wrong in one output
//   match_answers(probes, "sm90_fp8")            rows that give every output of every call of a black box
//
// Errors: those of the rows, but Error{usage}: a row that is not defined for the problem is left out.
//
// Does not promise: that a candidate is what explains it. A name holds for the bits that were compared, whose number is
// said with it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "properties/core/compare.h"

namespace mxcheck {

using Bytes = std::vector<std::byte>;

// Thrown by a row that does not say what it gives, since that would take too long: it is neither right nor wrong.
struct RowNotComputed : Error {
  RowNotComputed() : Error(ErrorKind::usage, "a row that takes too long") {}
};

struct Definition {
  std::string name;  // "recipe floor"; of a slip, what there is in place of the right thing: "ties away from zero"
  // Its bytes for output number `output`; none where it says nothing about that output, or is not defined here.
  std::function<Bytes(std::size_t output)> bytes;
  std::string source = {};  // where it comes from: a library, a paper, a specification; empty: a slip of anyone's
  // True if it is no fault of this output: it follows, rightly, from another output that is wrong. The name is a whole
  // line.
  bool derived = false;
  std::string remark = {};  // of a derived row that has the candidate's own bits: said beside the cause
  // True if its bits alone tell it from anything else, wherever it shows: memory that was not written.
  bool is_told_anywhere = false;
  // False where no rule may confine it: it says itself where it shows.
  bool may_be_confined = true;
};
using Table = std::vector<Definition>;

// A row about one output alone.
Definition definition_of_output(std::size_t output, std::string name, std::function<Bytes()> bytes,
                                std::string source = {}, bool derived = false);
// A row whose outputs are computed together, once. Rows of one table share `memo`, which holds the answers of the rows
// that were asked last, up to 256 MB: each is asked once for each output, and by more than one question.
struct AnswerMemo {
  std::map<std::shared_ptr<const void>, std::vector<Bytes>> answers;  // by the row, which stays alive
  std::size_t bytes = 0;
};
Definition definition_of_all(std::string name, std::function<std::vector<Bytes>()> answer,
                             const std::shared_ptr<AnswerMemo>& memo, std::string source = {});

// Adds rows; one whose name is there already speaks about the outputs that the other says nothing about.
void merge(Table& to, Table rows);
// Leaves the rows with one of these names, or with a part of one ("codes: NAME; scales: NAME"), and derived ones.
void keep_named(Table& table, std::span<const std::string> names);
// The rows, which keep alive what they refer to.
Table owning(Table rows, const std::shared_ptr<const void>& what);

// One output of one call.
struct AnswerTensor {
  TensorInfo info;
  std::span<const std::byte> expected;  // by the definition that is claimed
  std::span<const std::byte> observed;
  std::span<const std::int64_t> groups = {};  // rows at which the experts' rows begin, and the end; none: no experts
};

// The names of rows that give every observed output, each of them exactly; a row need not say anything about outputs
// that are as expected, or that follow from another output. Where no row does, but each wrong output has rows of its
// own, "codes: ties away from zero; scales: recipe floor".
std::vector<std::string> names_that_explain(std::span<const AnswerTensor> outputs, const Table& table);

// Elements, by their bits, or any NaN as good as another where the tensor says so; words as integers.
bool same_element(const TensorInfo& info, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::int64_t element);
bool same_elements(const TensorInfo& info, std::span<const std::byte> a, std::span<const std::byte> b);
std::uint32_t word_of(const TensorInfo& info, std::span<const std::byte> bytes, std::int64_t element);
// The row's bytes; none where it is not defined for the problem.
Bytes bytes_of_row(const Definition& row, std::size_t output);

// A row held against the outputs: the wrong elements that it explains, and the right ones that it contradicts.
struct Fit {
  std::int64_t wrong = 0;         // elements that differ from the expected
  std::int64_t explained = 0;     // of these, as the row has them
  std::int64_t contradicted = 0;  // right elements that the row has otherwise
  [[nodiscard]] bool exact() const { return wrong > 0 && explained == wrong && contradicted == 0; }
  // Half of what is wrong, and hardly anything that is right: less is no cause.
  [[nodiscard]] bool likely() const {
    return explained > 0 && 2 * explained >= wrong && 10 * contradicted <= explained;
  }
};
Fit fit_of(const AnswerTensor& output, std::span<const std::byte> bytes);

// Lines about the rows that explain all of output number `output`, or else about the best of the likely ones; at most
// `most`, in the order given. Rows with the same bytes are one cause: "recipe floor (identical here: recipe ocp)". A
// derived one that explains everything is the only one.
std::vector<std::string> likeliest_causes(const AnswerTensor& tensor, const Table& table, std::size_t output,
                                          const std::string& unit, std::size_t most = 5);

// "from element 1234 on everything is 0x00: not written?", when that holds for most of what is wrong.
std::vector<std::string> constant_tail(const AnswerTensor& tensor, const std::string& unit);

// One call of a black box: its outputs, and the table for that call. Rows of several probes are the same where they
// have the same name.
struct Probe {
  std::string name;
  std::vector<TensorInfo> outputs;
  std::vector<Bytes> observed;
  Table table;
};

struct ProbeDifference {
  std::string probe;
  std::string part;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::optional<Format> format;  // none: integers
  std::uint32_t expected = 0;    // by the definition
  std::uint32_t observed = 0;
};

// The word in four notations, or as an integer.
std::string notation(const std::optional<Format>& format, std::uint32_t word);

struct Explained {
  std::string name;
  std::int64_t equal = 0;
  ProbeDifference first;
  std::vector<std::string> probes = {};  // those of which it explains every bit
};

struct Match {
  std::string declared;                   // what the box claims to be; empty: nothing
  std::optional<Explained> not_declared;  // where it is not that: the first word; nothing where the claim was not tried
  std::vector<std::string> explaining;    // the declared one first, then in the order of the table
  std::vector<Explained> closest;         // at most three, best first; of those that do not explain everything
  std::int64_t compared = 0;              // words of the box
  std::size_t probes = 0;
  std::size_t tried = 0;                  // definitions that could answer
  std::vector<std::string> notes;         // other words for what explains it
  std::vector<std::string> slips;         // where no definition explains it: named slips that give every bit
  std::vector<std::string> remarks = {};  // about the box: "two calls with the same input differ"

  [[nodiscard]] bool explained() const { return !explaining.empty(); }
  // True if the box is what it claims to be.
  [[nodiscard]] bool holds() const { return explained() && (declared.empty() || explaining.front() == declared); }
};

// A row explains the box where every word of every output of every probe is equal. Where none does, the closest are
// listed, each with the first word that it does not explain.
Match match_answers(std::span<const Probe> probes, const std::string& declared = "");

// Further calls, of which those that explained all before are asked alone: the ones that do no longer are among the
// closest.
void narrow(Match& match, std::span<const Probe> probes);

// Where no definition explains the box: adds the rows of these tables that do, as slips.
void try_slips(Match& match, std::span<const Probe> probes);

// Leaves the three closest, best first.
void keep_closest(Match& match);

// "declared" where something was; "explained by", or the closest with their first difference in four notations; a line
// each.
std::string to_text(const Match& match);

}  // namespace mxcheck
