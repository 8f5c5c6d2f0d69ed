#include "tests/properties/toy_operation/operation.h"

#include <cmath>
#include <utility>

#include "numerics/bytes.h"
#include "properties/core/case_text.h"
#include "properties/core/check.h"
#include "properties/core/domain/usual_domain.h"
#include "properties/core/input.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "tests/properties/toy_operation/candidate_multiply.h"

namespace mxcheck {
namespace {

// An element of x under each distribution: a pure function of the case and the place.
std::uint32_t element(const Case& c, std::int64_t i, std::int64_t j) {
  const std::uint64_t word = random_word(c.seed, static_cast<std::uint64_t>(i * c.cols + j));
  switch (c.data) {
    case Data::zeros: return 0;
    case Data::codes: return nearest_bits(Format::fp32, static_cast<double>(1 + word % 8));
    case Data::bits: return static_cast<std::uint32_t>(word);
    default: return nearest_bits(Format::fp32, four_uniforms(word));
  }
}

// The tensors of one case, and the right answer.
class MultiplyProblem final : public Problem {
 public:
  explicit MultiplyProblem(const Case& from)  // drawn
      : MultiplyProblem(from, expand_input(from, [&](std::int64_t i, std::int64_t j) { return element(from, i, j); })) {
  }
  MultiplyProblem(const Case& from, Input given) : Problem(from), x_(std::move(given)) {
    outputs = {{"y", Format::fp32, c.rows, c.cols, 0, 0, true}};
  }

  // Written for the eye, not for speed: this is what the candidate's bytes are compared with.
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override {
    std::vector<float> y = values_in<float>(x_.bytes);
    for (float& value : y) value *= multiply_case(c).factor;
    return {{outputs[0], to_bytes(y)}};
  }

  // Slips that a report names where they give every bit.
  [[nodiscard]] Table definitions(std::span<const Bytes>) const override {
    const auto columns_kept = [this](std::size_t first) {
      std::vector<float> y = values_in<float>(answer()[0].bytes);
      const std::vector<float> x = values_in<float>(x_.bytes);
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i % static_cast<std::size_t>(c.cols) >= first) y[i] = x[i];
      }
      return to_bytes(y);
    };
    return {definition_of_output(0, "x, not multiplied", [=] { return columns_kept(0); }),
            definition_of_output(0, "x from the fifth column on", [=] { return columns_kept(4); })};
  }

  // Lines of the report about the first wrong element; what is relevant is planted in smaller cases.
  void explain(std::size_t, Finding& finding) const override {
    const Difference::Element& e = finding.difference->first;
    finding.element.push_back("input     x = " + notations(Format::fp32, x_.bits(e.row, e.col)));
    finding.element.push_back("expected  " + notations(Format::fp32, e.expected));
    finding.element.push_back("observed  " + notations(Format::fp32, e.observed));
    finding.relevant.push_back(x_.plant(e.row, e.col));
  }

  // For the call, and for the file of a counterexample.
  [[nodiscard]] std::vector<ProblemInput> inputs() const override {
    return {matrix_input(values_info("x", Format::fp32, c.rows, c.cols), x_.bytes)};
  }

 private:
  Input x_;
};

// Rows, columns, factors and kinds of data, in bins.
class MultiplyDomain final : public UsualDomain {
 public:
  explicit MultiplyDomain(const DomainRequest& request) : UsualDomain(request, 1) {
    static constexpr std::int64_t kExtents[] = {0, 1, 2, 8, 16, 32};
    static constexpr std::int64_t kQuarters[] = {-8, 0, 1};
    rows_ = add_rows("rows", kExtents, 40);
    cols_ = add_cols("cols", kExtents, 40);
    factor_ = add("factor, in quarters", extent_bins(kQuarters, 8),
                  [](const Case& c) { return static_cast<std::int64_t>(4 * multiply_case(c).factor); });
    add_data();
    set_variants();
  }
  [[nodiscard]] std::int64_t small_work() const override { return 1600; }
  [[nodiscard]] std::int64_t most_work(Suite) const override { return 1600; }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return c.elements(); }
  bool fill(Case& c, const Bins& wanted, std::int64_t, int, Draw& draw) const override {
    c.rows = draw_value(wanted, rows_, draw), c.cols = draw_value(wanted, cols_, draw);
    draw_data(c, wanted, draw);
    c.seed = draw.word();
    multiply_case(c).factor = static_cast<float>(draw_value(wanted, factor_, draw)) / 4;
    return true;
  }

 private:
  int rows_, cols_, factor_;
};

class Multiply final : public Operation {
 public:
  [[nodiscard]] std::string_view name() const override { return "multiply"; }

  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const override {
    return {{operation, Format::fp32}};
  }
  [[nodiscard]] Policy policy(const Case& c) const override {
    multiply_policy p{};
    p.base.rows = c.rows, p.base.cols = c.cols, p.base.threads = c.threads;
    p.factor = multiply_case(c).factor;
    return pack(p);
  }

  // A case as text, and back.
  [[nodiscard]] std::string variant_text(const Variant& v) const override {
    return fmt::format("op={} x={}", v.operation, spec(v.dtype).name);
  }
  [[nodiscard]] std::string option_text(const Case& c) const override {
    return fmt::format(" factor={}", multiply_case(c).factor);
  }
  bool set_field(Case& c, std::string_view field, std::string_view value) const override {
    if (field != "factor") return false;
    multiply_case(c).factor = number_field<float>(field, value);
    return true;
  }
  void check(const Case& c) const override {
    if (c.stride != 0 || !c.experts.empty() || c.gather != 0 || c.variant.dtype != Format::fp32)
      throw Error(ErrorKind::usage, "multiply has neither strides nor experts nor an index, and x is fp32");
  }

  // The domain that cases are made from and must have met, and the cases that are tried in place of a failing one.
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const override {
    return std::make_unique<MultiplyDomain>(request);
  }
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const override {
    std::vector<Case> all;
    const auto add = [&](const auto& change) {
      Case n = c;
      change(n);
      fit_plants(n);
      if (n != c) all.push_back(std::move(n));
    };
    if (c.data != Data::zeros && !finding.relevant.empty())
      add([&](Case& n) { n.data = Data::zeros, n.seed = 0, n.plants = {finding.relevant.front()}; });
    for (const std::int64_t rows : smaller_extents(c.rows)) add([&](Case& n) { n.rows = rows; });
    for (const std::int64_t cols : smaller_extents(c.cols)) add([&](Case& n) { n.cols = cols; });
    add([](Case& n) { multiply_case(n).factor = 2; });
    return all;
  }

  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<MultiplyProblem>(c);
  }
  // Reads the call's own tensors, for replay.
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    const auto p = read<multiply_policy>(call.policy);
    Case c;
    c.variant = {call.operation, Format::fp32};
    c.rows = p.base.rows, c.cols = p.base.cols;
    multiply_case(c).factor = p.factor;
    const CallTensor& x = call.inputs[0];
    return std::make_unique<MultiplyProblem>(c,
                                             Input{{x.data, x.data + x.bytes}, Format::fp32, c.rows, c.cols, c.cols});
  }

  [[nodiscard]] bool any_nan_is_equal(std::string_view) const override { return true; }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const override { return disagreeing_extents({}); }
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite) const override {
    Case c;
    c.variant = v;
    c.rows = 257, c.cols = 129, c.data = Data::normal, c.seed = 1;
    return {c};
  }
};

}  // namespace

OperationModule multiply_module() {
  static const Multiply kMultiply;
  Statement s;
  s.name = "multiply_equals_the_reference";
  s.sentence = "y is factor times x, rounded once";
  s.source = "IEEE 754-2019 section 5.4.1";
  s.applies = [](const Variant& v, std::span<const Variant>) { return v.operation == "multiply"; };
  s.data = {Data::codes, Data::normal, Data::bits};
  s.covers_pairs = true;
  s.check = equals_the_reference;
  return {{&kMultiply}, {s}};
}

}  // namespace mxcheck
