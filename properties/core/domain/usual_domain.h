#pragma once
// The axes that most operations have, and how cases are drawn on them: extents, experts, a row stride, where tensors
// begin, threads, kinds of data, row indices, production's layers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/domain/domain.h"

namespace mxcheck {

// 1 to 512 groups; 8, 16, 32, 64, 128, 256 and 512, and the next above each, are bins of their own.
std::vector<Bin> expert_count_bins();

// The number of rows that x's rows are taken from by index: none, one, fewer, as many, more, more than 16 bits count.
std::int64_t index_kind(const Case& c);
std::int64_t source_rows(std::int64_t kind, std::int64_t rows, Draw& draw);

class UsualDomain : public Domain {
 protected:
  // unit: rows of which experts' ends may be multiples.
  UsualDomain(const DomainRequest& request, std::int64_t unit);

  // A case of its variant, drawn on all axes: attempt() but for the choice of the variant. False: there is none.
  virtual bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const = 0;
  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const final;
  [[nodiscard]] bool is_allowed(const Variant& v, const Bins& wanted) const final;
  // False: no case of the variant is in these bins, beside places of tensors.
  [[nodiscard]] virtual bool may_be_in(const Variant&, const Bins& /*wanted*/) const { return true; }

  int add_of_variant(std::string name, const Text& text) {
    return Domain::add_of_variant(std::move(name), variants_, text);
  }
  int add_rows(std::string name, std::span<const std::int64_t> starts, std::int64_t last);
  int add_cols(std::string name, std::span<const std::int64_t> starts, std::int64_t last);
  // The number of experts, and the kind of their rows.
  void add_experts(std::vector<Bin> counts, int plain = kAnyBin);
  void add_optional_experts();  // in as many cases as the statement says
  void add_gap();
  void add_col_stride();  // where the candidate takes one
  // Where tensors begin, past a multiple of 64 bytes: each of 0 to 15, 16 and 32; few: 0, 1, 2, 4, 8, 16. In so many
  // percent of the cases, at a multiple of the width of their elements, the same for all of first to last.
  struct Tensors {
    bool are_outputs = false;
    std::uint8_t first = 0;
    std::uint8_t last = 0;
  };
  int add_place(std::string name, Tensors tensors, const std::function<std::int64_t(const Variant&)>& width,
                bool few = false, int percent = 30);
  int add_place(std::string name, Tensors tensors, std::int64_t width, bool few = false, int percent = 30) {
    return add_place(
        std::move(name), tensors, [width](const Variant&) { return width; }, few, percent);
  }
  void add_threads();  // 0 to 64, of host libraries
  void add_data();
  void add_row_index(bool (*has_it)(const Variant&));

  static int bin(const Bins& wanted, int axis) { return wanted[static_cast<std::size_t>(axis)]; }
  // The number of the wanted bin, or one below `kinds`.
  static std::int64_t draw_kind(const Bins& wanted, int axis, std::uint64_t kinds, Draw& draw);
  [[nodiscard]] std::optional<Groups> wanted_groups(const Bins& wanted) const;
  // 0 where the case has no offsets; 4 to 7 where a kind of groups is wanted that needs some.
  [[nodiscard]] std::int64_t draw_experts(const Bins& wanted, Draw& draw) const;
  // Rows of which such groups can be made.
  void fit_rows_to(Groups kind, std::int64_t experts, int axis, ExtentRange& rows, Draw& draw) const;
  bool draw_offsets(Case& c, std::int64_t experts, std::optional<Groups> kind, Draw& draw) const;
  void draw_gap(Case& c, const Bins& wanted, Draw& draw) const;
  void draw_col_stride(Case& c, const Bins& wanted, Draw& draw) const;  // after the gap and the row index
  void draw_places(Case& c, const Bins& wanted, Draw& draw) const;
  void draw_threads(Case& c, const Bins& wanted, Draw& draw) const;
  void draw_data(Case& c, const Bins& wanted, Draw& draw) const;
  void draw_row_index(Case& c, const Bins& wanted, std::uint64_t percent, Draw& draw) const;
  void set_variants() { Domain::set_variants(variants_); }

  [[nodiscard]] const Statement& statement() const { return statement_; }
  [[nodiscard]] const OperationInfo& limits() const { return limits_; }
  [[nodiscard]] std::span<const Variant> variants() const { return variants_; }
  [[nodiscard]] bool cuda() const { return cuda_; }
  [[nodiscard]] int experts_axis() const { return experts_; }
  [[nodiscard]] int groups_axis() const { return groups_; }
  [[nodiscard]] int data_axis() const { return data_; }
  [[nodiscard]] int index_axis() const { return index_; }

 private:
  struct Place {
    int axis = -1;
    Tensors tensors;
    std::function<std::int64_t(const Variant&)> width;
    int percent = 30;
  };

  const Statement& statement_;
  OperationInfo limits_;
  std::span<const Variant> variants_;  // of the request, while the domain is made
  bool cuda_;
  std::int64_t unit_;
  std::vector<Place> places_;
  int experts_ = -1, groups_ = -1, gap_ = -1, col_stride_ = -1, threads_ = -1, data_ = -1, index_ = -1;
};

// A domain with uses of production's layers. Layers: uses(), each with a layer and a text; is(use, case), and
// at(use, drawn case, most, draw).
template <class Layers>
class LayeredDomain : public UsualDomain {
 public:
  using UsualDomain::UsualDomain;
  [[nodiscard]] bool is_of_layer(std::size_t use, const Case& c) const override { return layers_.is(uses_[use], c); }

 protected:
  // Uses whose text begins like that; after all axes.
  void add_layers(Layers layers, std::string_view prefix = {}) {
    layers_ = std::move(layers);
    for (const auto& use : layers_.uses()) {
      if (!use.text.starts_with(prefix)) continue;
      uses_.push_back(use);
      add_layer_use(use.layer, use.text);
    }
    set_variants();
  }
  [[nodiscard]] std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t most,
                                             Draw& draw) const override {
    return layers_.at(uses_[use], std::move(drawn), most, draw);
  }

 private:
  Layers layers_;
  std::vector<typename Layers::Use> uses_;
};

}  // namespace mxcheck
