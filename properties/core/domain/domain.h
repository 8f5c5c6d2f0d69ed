#pragma once
// The domain of an operation, cut into bins: what the gate must have met of a library before it says that a statement
// held, and what cases are made from.
//
// An axis is one dimension of the inputs (rows, formats, the alignment of a tensor, the kind of data), its bins are
// ranges of its values that production uses, edges among them as bins of their own: a library that changes its path at
// 1024 columns or from the ninth expert on is wrong in one bin and right in the next.
// properties/gate/coverage/covering.h makes cases that meet every bin, and every pair of bins of two axes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/rng.h"

namespace mxcheck {

// The extent of a run, from the smallest to the largest.
enum class Suite : std::uint8_t { quick, full, exhaustive };
constexpr std::string_view to_text(Suite suite) {
  constexpr std::string_view kTexts[] = {"quick", "full", "exhaustive"};
  return kTexts[static_cast<std::size_t>(suite)];
}

struct Statement;

struct Bin {
  std::int64_t low = 0;
  std::int64_t high = 0;  // inclusive
  std::string label;
};

inline constexpr int kAnyBin = -1;  // wanted: whatever fits; found: the value is in no bin
inline constexpr std::int64_t kNotOnAxis = std::numeric_limits<std::int64_t>::min();

struct Axis {
  std::string name;
  std::vector<Bin> bins;
  [[nodiscard]] int bin_of(std::int64_t value) const;
};

// A bin of each axis of a domain, or kAnyBin.
using Bins = std::vector<int>;

// Ranges that begin at each of `starts`, the last one ending at `last`; those without a multiple within the limit (0:
// none) are left out, and the others cut there.
std::vector<Bin> extent_bins(std::span<const std::int64_t> starts, std::int64_t last, std::int64_t multiple = 1,
                             std::int64_t limit = 0);
// One bin a word, with its index for a value.
std::vector<Bin> word_bins(const std::vector<std::string>& words);

// A value of [low, high] that is a multiple: mostly an end, or beside a multiple of `unit`. Empty when there is none.
std::optional<std::int64_t> draw_extent(std::int64_t low, std::int64_t high, std::int64_t multiple, std::int64_t unit,
                                        Draw& draw);

// One way in which an operation meets a layer of production's models (properties/core/layers/layers.h): a width, a
// product, a router.
struct LayerUse {
  std::string layer;  // the model
  std::string use;
};

// The request for a domain: the statement, the variants of one operation, the candidate.
struct DomainRequest {
  const Statement& statement;
  std::span<const Variant> variants;  // of one operation, those that the statement applies to
  const CandidateRunner& process;
};

class Domain {
 public:
  Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  virtual ~Domain() = default;

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  [[nodiscard]] Bins bins_of(const Case& c) const;
  // A case in all wanted bins of at most `most` elements or multiplications, drawn at random where nothing is wanted;
  // empty where the bins exclude one another.
  [[nodiscard]] std::optional<Case> make(const Bins& wanted, std::int64_t most, Draw& draw) const;
  // Elements or multiplications of a case: of random ones, and at most where a bin wants more.
  [[nodiscard]] virtual std::int64_t small_work() const = 0;
  [[nodiscard]] virtual std::int64_t most_work(Suite suite) const = 0;
  // The same of a pair of bins that has a case of so much: only what is larger together takes more, in a case that is
  // made for it.
  [[nodiscard]] virtual std::int64_t usual_work(Suite suite) const { return most_work(suite); }
  // The bins of a case that asks for no option (experts, strides, an index, addresses beside multiples of 64): those
  // that a refused case is tried with again, to find out what was refused.
  [[nodiscard]] const Bins& plain() const { return plain_; }
  // The bins of the own axes of the request's variant of this number; any of the others.
  [[nodiscard]] Bins of_variant(std::size_t number) const;
  // One of the request's variants is in all of these bins of variants' axes.
  [[nodiscard]] bool has_variant_in(const Bins& wanted) const;

  // Sets of axes, as indices: of each three of a set, every triple of bins is met in the full suite. Those by which
  // kernels choose a path together, which is said where they are named.
  [[nodiscard]] const std::vector<std::vector<std::size_t>>& interacting() const { return interacting_; }
  // Elements or multiplications of a case of a triple: there are thousands.
  [[nodiscard]] virtual std::int64_t most_work_of_triples() const { return small_work(); }

  // Uses of layers that are within the candidate's limits; those of one layer follow one another.
  [[nodiscard]] const std::vector<LayerUse>& layer_uses() const { return layer_uses_; }
  // Variants of one family need no case of a use each.
  [[nodiscard]] virtual std::string family_of(const Variant& v) const;
  [[nodiscard]] virtual bool is_of_layer(std::size_t use, const Case& c) const;
  // A case of this use and of the request's variant of this number; plain: that asks for no option. Empty where there
  // is none: too large, or a router of another kind.
  [[nodiscard]] std::optional<Case> make_layer(std::size_t use, std::size_t variant, bool plain, std::int64_t most,
                                               Draw& draw) const;

 protected:
  // A case's value on an axis; kNotOnAxis where the axis says nothing about it.
  using Value = std::function<std::int64_t(const Case&)>;
  using Text = std::function<std::string(const Variant&)>;

  // The index of the new axis; -1, and no axis, where it would have no bin.
  int add(std::string name, std::vector<Bin> bins, Value value);
  // An axis of an option; `plain` is the bin of cases that do not ask for it.
  int add_option(std::string name, std::vector<Bin> bins, Value value, int plain = 0);
  // A field of variants: one bin for each text that it has among these.
  int add_of_variant(std::string name, std::span<const Variant> variants, const Text& text);

  // A case that is meant to be in the wanted bins; make() looks whether it is. attempt counts from 0: the last ones
  // take the ends of ranges, where a fit is likeliest.
  [[nodiscard]] virtual std::optional<Case> attempt(const Bins& wanted, std::int64_t most, int attempt,
                                                    Draw& draw) const = 0;
  [[nodiscard]] virtual std::int64_t work_of(const Case& c) const = 0;

  void interact(std::initializer_list<int> axes);  // those that there are
  void add_layer_use(std::string layer, std::string use) { layer_uses_.push_back({std::move(layer), std::move(use)}); }
  // A drawn case, at the dimensions of this use.
  [[nodiscard]] virtual std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t most, Draw& draw) const;

  // The range of a wanted bin, or of all bins; 0 alone where a library's limits leave the axis no bin.
  [[nodiscard]] Bin range(const Bins& wanted, int axis) const;
  // A bin's value drawn: where a bin is wanted from it, else from any.
  [[nodiscard]] std::int64_t draw_value(const Bins& wanted, int axis, Draw& draw) const;
  // The same as range() of one bin and draw_value(), small bins oftener where none is wanted.
  [[nodiscard]] Bin small_range(const Bins& wanted, int axis, Draw& draw) const;
  [[nodiscard]] std::int64_t draw_small_value(const Bins& wanted, int axis, Draw& draw) const;
  [[nodiscard]] static bool is_wanted(const Bins& wanted, int axis) {
    return axis >= 0 && wanted[static_cast<std::size_t>(axis)] != kAnyBin;
  }
  // Where a tensor of such elements begins: what is wanted, else in so many percent of the cases any place of theirs.
  [[nodiscard]] std::uint8_t draw_misalignment(const Bins& wanted, int axis, std::int64_t element, int percent,
                                               Draw& draw) const;
  // One of these variants that is in the wanted bins, and that the others allow; null when none is.
  [[nodiscard]] const Variant* draw_variant_in(const Bins& wanted, Draw& draw) const;
  [[nodiscard]] virtual bool is_allowed(const Variant&, const Bins& /*wanted*/) const { return true; }
  void set_variants(std::span<const Variant> variants);

  static constexpr int kAttempts = 10;

 private:
  // A variant's bins are those that are wanted of variants' axes.
  [[nodiscard]] bool is_in(const Bins& variant, const Bins& wanted) const;

  std::vector<Axis> axes_;
  std::vector<Value> values_;  // of the axes
  Bins plain_;
  std::vector<int> variant_axes_;
  std::vector<Variant> variants_;
  std::vector<Bins> bins_of_variants_;  // of variant_axes_
  std::vector<std::vector<std::size_t>> interacting_;
  std::vector<LayerUse> layer_uses_;
};

struct ExtentRange {
  Bin range;
  std::int64_t multiple = 1;
  std::int64_t unit = 1;  // of blocks or tiles: values beside its multiples are drawn often
};
// The case's rows and cols, in these ranges, with a product in bounds; false where there are none.
bool draw_extents(Case& c, const ExtentRange& rows, const ExtentRange& cols, const Bin& product, int attempt,
                  Draw& draw);

// Offsets of groups of rows (experts), by kind: which of them are empty, and where they end.

enum class Groups : std::uint8_t {
  any,          // rows in all of them, or in all but some that stand alone
  whole_units,  // every end at a multiple of the unit
  one_has_all,
  first_empty,
  last_empty,
  empty_in_a_row,  // two or more after one another
  none_has_rows,
  one_row_each,  // at most
};
inline constexpr int kGroupKinds = 8;
const std::vector<std::string>& group_kind_labels();

// The first of none_has_rows, one_has_all, one_row_each, empty_in_a_row, first_empty, last_empty, whole_units that it
// is.
Groups kind_of_groups(const std::vector<std::int64_t>& offsets, std::int64_t unit);

// count groups of that kind that end at `end`; empty where there can be none.
std::optional<std::vector<std::int64_t>> draw_groups(Groups kind, std::int64_t count, std::int64_t end,
                                                     std::int64_t unit, Draw& draw);

}  // namespace mxcheck
