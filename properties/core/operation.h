#pragma once
// All that the gate needs of an operation, and the registry of operations: nothing outside properties/operations/ names
// one. docs/extending.md adds an operation step by step.
//
// An operation's own fields are a type of its own (properties/core/case.h), in variants and in cases; what is
// here works on Variant and Case and asks the operation for the rest.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "properties/core/call.h"
#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/compare.h"
#include "properties/core/definitions.h"
#include "properties/core/domain/domain.h"
#include "properties/core/finding.h"
#include "properties/core/rng.h"
#include "properties/core/statement.h"

namespace mxcheck {

// The inputs of a problem, each declared once: the tensor of its call, and what a file of a saved counterexample has of
// it.

struct ProblemInput {
  CallTensor tensor;
  TensorInfo info;  // its name, and rows with the gaps between them
};

inline TensorInfo values_info(std::string name, Format format, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), format, rows, cols, 0, 0, true};
}

// A matrix of this format, one T an element; stride: elements of `values` from a row to the next one, 0 for cols.
template <class T>
ProblemInput matrix_input(TensorInfo info, const std::vector<T>& values, std::int64_t stride = 0) {
  CallTensor t;
  t.dtype = spec(info.format).is_value ? info.format : Format::e4m3;
  t.shape = {info.rows, info.cols};
  t.data = reinterpret_cast<const std::byte*>(values.data());
  t.bytes = values.size() * sizeof(T);
  if (stride > info.cols) {  // the gap after the last row is no part of it
    t.row_stride = stride;
    t.bytes = info.rows * info.cols == 0 ? 0 : t.bytes - static_cast<std::uint64_t>(stride - info.cols) * sizeof(T);
    info.cols = stride;
  }
  return {std::move(t), std::move(info)};
}

// FP32 numbers, an index of int32, offsets of int64.
template <class T>
ProblemInput vector_input(std::string name, const std::vector<T>& values) {
  ProblemInput in = matrix_input(values_info(std::move(name), Format::fp32, 1, std::ssize(values)), values);
  in.tensor.shape = {std::ssize(values)};
  in.tensor.is_index = std::is_same_v<T, std::int32_t>, in.tensor.is_offsets = std::is_same_v<T, std::int64_t>;
  if (std::is_integral_v<T>) in.info.integer_bits = 8 * static_cast<int>(sizeof(T));
  in.info.is_vector = true;
  return in;
}

// An output as a call has it.
CallTensor output_tensor(const TensorInfo& info);

// One tensor that an operation must write.
struct ExpectedTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

// An input tensor as a file of a saved counterexample holds it.
struct SavedTensor {
  std::string name;
  TensorInfo info;  // element formats and e8m0: bytes
  std::vector<std::byte> bytes;
};

// The tensors of a case, ready to hand to a candidate, and the reference's answer to it.
class Problem {
 public:
  explicit Problem(Case from) : c(std::move(from)) {}
  Problem(const Problem&) = default;
  Problem& operator=(const Problem&) = default;
  virtual ~Problem() = default;

  Case c;
  std::vector<TensorInfo> outputs;

  [[nodiscard]] virtual Call call() const;  // pointers into this
  [[nodiscard]] virtual std::vector<ExpectedTensor> answer() const = 0;
  // Lines that explain finding.difference, which is in output number `output`, and the inputs it follows from.
  virtual void explain(std::size_t output, Finding& finding) const = 0;
  // The tensors that a saved counterexample holds beside expected and observed outputs: inputs that have elements.
  [[nodiscard]] virtual std::vector<SavedTensor> saved() const;
  // Other definitions and named slips that may explain outputs; observed: the candidate's, under whose scales codes may
  // be right. Rows point into this. None where computing their answers would take too long.
  [[nodiscard]] virtual Table definitions(std::span<const Bytes>) const { return {}; }
  // The outputs in the order in which a difference is most informative: scales before the codes that follow from them.
  [[nodiscard]] virtual std::vector<std::size_t> order() const;

  // The inputs that call() and saved() are made of; pointers into this.
  [[nodiscard]] virtual std::vector<ProblemInput> inputs() const { return {}; }
};

// A way to make a good call one that must be refused.
struct InvalidCall {
  const char* how;
  std::function<bool(Call&)> make;  // false: not applicable to this call
  bool host_only = false;           // CUDA libraries may accept it
  bool needs_message = true;        // of the refusal
  // A size that is right in 32 bits, or in a product of 64: of the statement about those.
  bool wraps = false;
};

// Identification (docs/identify.md) asks one of the variants that have the same name here: that of the lowest rank.
struct IdentifiedAs {
  std::string name;
  std::int64_t rank = 0;
  bool is_transposed = false;  // codes and scales are written as their transposes
};
// The widest type of values first.
constexpr std::int64_t rank_of_type(Format dtype) { return dtype == Format::fp32 ? 0 : dtype == Format::bf16 ? 1 : 2; }

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // The name in the candidate's table. Variant::operation is this, or more: "matmul:CONTRACT".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Variant::operation of a table's entry with this contract. Error{usage} for a contract that cannot be checked.
  [[nodiscard]] virtual std::string variant_name(std::string_view contract) const;
  // True if entries of the table name contracts that are part of the variant's name; the claims that may stand in place
  // of bits elsewhere ("aggregate:any_order"); true if an operation of one promises bits: where it does not, two runs
  // of a call may differ.
  [[nodiscard]] virtual bool has_contracts() const { return false; }
  [[nodiscard]] virtual std::vector<std::string_view> claims() const { return {}; }
  void check_claim(std::string_view claim) const;  // Error{usage} for another than those
  [[nodiscard]] virtual bool promises_bits(std::string_view operation) const {
    return operation.find(':') == std::string_view::npos;
  }

  // Variants: everything that could be queried, and the policy that `supports` is called with.
  [[nodiscard]] virtual std::vector<Variant> askable(const std::string& operation) const = 0;
  // The same of a library whose table has this contract, which may offer more.
  [[nodiscard]] virtual std::vector<Variant> askable_under(const std::string& operation,
                                                           std::string_view /*contract*/) const {
    return askable(operation);
  }
  [[nodiscard]] virtual Policy question(const Variant& v) const;
  [[nodiscard]] virtual Policy policy(const Case& c) const = 0;

  // True if a policy that ends before the own fields is another right one, not one that must be refused.
  [[nodiscard]] virtual bool has_policies_by_size() const { return false; }

  // By default each variant is asked; none is where it has options that identification leaves out.
  [[nodiscard]] virtual std::optional<IdentifiedAs> identified_as(const Variant& v) const {
    return IdentifiedAs{variant_text(v)};
  }

  // Text: "op=... x=bf16" of a variant; " depth=..." after rows and cols; " pad=..." after the plants.
  [[nodiscard]] virtual std::string variant_text(const Variant& v) const = 0;
  [[nodiscard]] virtual std::string shape_text(const Case& c) const;
  [[nodiscard]] virtual std::string option_text(const Case& c) const;
  // False: no field of this operation. Error{usage} for a value that cannot be.
  virtual bool set_field(Case& c, std::string_view field, std::string_view value) const = 0;
  // Error{usage} for a case that no call could pose.
  virtual void check(const Case& c) const;

  // Everything that cases are made from and that must be met.
  [[nodiscard]] virtual std::unique_ptr<Domain> domain(const DomainRequest& request) const = 0;

  // Drawing: how often among others (as so many variants; none: as often as it has variants), and simpler cases in
  // place of a failing one (the boldest first).
  [[nodiscard]] virtual std::optional<std::size_t> fixed_weight() const { return std::nullopt; }
  [[nodiscard]] virtual std::vector<Case> simpler(const Case& c, const Finding& finding) const = 0;
  // After rows or cols have changed: what follows from them.
  virtual void fit(Case& c) const;
  // The last of the expert offsets: the extent that the groups of experts divide.
  [[nodiscard]] virtual std::int64_t experts_end(const Case& c) const { return c.rows; }
  // Half as many rows, with groups that fit or none.
  virtual void halve_rows(Case& c) const;
  // Multiplications or elements: what the reference's time grows with.
  [[nodiscard]] virtual std::int64_t work(const Case& c) const { return c.elements(); }

  // The tensors of a case; the problem that a call poses, read from the call's own tensors (Error{internal} for a call
  // that no statement makes of a good case).
  [[nodiscard]] virtual std::unique_ptr<Problem> make_problem(const Case& c) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Problem> problem_of(const Call& call) const = 0;
  // True if any NaN in the outputs is as good as another.
  [[nodiscard]] virtual bool any_nan_is_equal(std::string_view operation) const = 0;

  // True if the case asks for what a library may leave out, as supports() is not asked for it.
  [[nodiscard]] virtual bool is_option(const Case& c) const;
  // The case without them.
  [[nodiscard]] virtual Case without_options(Case c) const;
  // Calls that must be refused, beside those of every operation; whether a case is large enough to make them of.
  [[nodiscard]] virtual std::vector<InvalidCall> invalid_calls() const { return {}; }
  [[nodiscard]] virtual bool has_invalid_calls(const Case& c) const;
  // True if the first input may have gaps between its rows, or between the elements of a row, where the table says that
  // it may (OperationInfo::takes_col_stride); no other tensor may.
  [[nodiscard]] virtual bool may_have_row_stride() const { return false; }
  [[nodiscard]] virtual bool may_have_col_stride() const { return false; }
  // Offsets among the inputs say by their length how many experts there are.
  [[nodiscard]] virtual bool has_offsets_of_experts() const { return true; }
  // Cases large enough that a library has a reason to use several threads, ragged in both directions.
  [[nodiscard]] virtual std::vector<Case> large_cases(const Variant& v, Suite suite) const = 0;
};

// An operation whose problems are of one type, made of a case or of a call.
template <class Posed, class Base = Operation>
class OperationOf : public Base {
 public:
  using Base::Base;
  [[nodiscard]] std::unique_ptr<Problem> make_problem(const Case& c) const override {
    return std::make_unique<Posed>(c);
  }
  [[nodiscard]] std::unique_ptr<Problem> problem_of(const Call& call) const override {
    return std::make_unique<Posed>(call);
  }
};

// A folder of properties/operations: its operations and the statements about them.
struct OperationModule {
  std::vector<const Operation*> operations;
  std::vector<Statement> statements;
};

// The registry. Built-in modules are those of properties/operations/registry.cc, in its order.
const std::vector<OperationModule>& all_modules();
const std::vector<const Operation*>& all_operations();
// By Variant::operation or by the table's name; null when there is none.
const Operation* find_operation(std::string_view operation);
// Error{usage} that lists what there is.
const Operation& operation_named(std::string_view operation);
std::string known_operations(std::string_view given);  // known_names of the table
bool promises_bits(const Variant& v);
// The time of a case, in units of the reference's work: a call of any size takes that of a thousand elements.
std::int64_t cost_of(const Case& c);

// For tests and programs of one's own, before the first look at the registry's contents: a further module at the end.
void add_module(OperationModule (*make)());

}  // namespace mxcheck
