#pragma once
// A case is a descriptor: everything that decides the tensors of one check, in one line of text. Tensors are expanded
// from it by its operation (properties/core/operation.h), never stored in it, so that a counterexample can be shrunk
// and copied as text:
//
//   op=quantize format=e4m3 recipe=rceil block=1x32 layout=tcgen05 pad=255 x=bf16 rows=3 cols=33 data=normal seed=7
//   optional: stride=1 col_stride=40 experts=0,1,3 gather=50 plant=0,31:7f80 threads=2 misaligned=2,0,0,0/5,0,0,0
//
// Fields that one operation has and others have not are described where that operation is: properties/operations/*.
// parse_case is the inverse of to_text; Error{usage} names the field and what it can be.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/format.h"
#include "properties/core/call.h"

namespace mxcheck {

// The fields that one operation's variants or cases have and no other's: a value of a type that only that operation
// knows, copied and compared with the variant or case that holds it.
//
// Copies share the value until one of them is edited. Nothing set reads as T{}.

class OwnFields {
 public:
  // T is copyable and has ==. Error{internal} for a T other than the one that was set: another operation's fields.
  template <class T>
  [[nodiscard]] const T& get() const {
    static const T kNothingSet{};
    return held_ == nullptr ? kNothingSet : as<T>(*held_).value;
  }
  template <class T>
  [[nodiscard]] T& edit() {
    auto own = std::make_shared<Holder<T>>(get<T>());
    T& value = own->value;
    held_ = std::move(own);
    return value;
  }

  friend bool operator==(const OwnFields& a, const OwnFields& b) {
    if (a.held_ == b.held_) return true;
    return a.held_ != nullptr ? a.held_->equals(b.held_.get()) : b.held_->equals(nullptr);
  }

 private:
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    [[nodiscard]] virtual bool equals(const Base* other) const = 0;  // null: a value that was not set
  };
  template <class T>
  struct Holder final : Base {
    explicit Holder(T from) : value(std::move(from)) {}
    [[nodiscard]] bool equals(const Base* other) const override {
      if (other == nullptr) return value == T{};
      return typeid(*other) == typeid(*this) && value == static_cast<const Holder&>(*other).value;
    }
    T value;
  };
  template <class T>
  static const Holder<T>& as(const Base& base) {
    if (typeid(base) != typeid(Holder<T>)) throw Error(ErrorKind::internal, "the fields of another operation");
    return static_cast<const Holder<T>&>(base);
  }

  std::shared_ptr<const Base> held_;
};

// One way in which an operation can be called: what `supports` is queried with.
struct Variant {
  std::string operation;        // "quantize", "matmul:CONTRACT", ...
  Format dtype = Format::bf16;  // of values: of x, of y for dequantize, of D for matmul, of a router's logits
  OwnFields own = {};           // the operation's
  friend bool operator==(const Variant&, const Variant&) = default;
};

// True for "aggregate" and for "aggregate:any_order" of "aggregate".
inline bool is_operation(std::string_view operation, std::string_view name) {
  return operation.substr(0, operation.find(':')) == name;
}
// The text behind the name: the contract of a product, the claim about another operation; "" where there is none.
inline std::string_view claim_of(std::string_view operation) {
  const std::size_t colon = operation.find(':');
  return colon == std::string_view::npos ? std::string_view() : operation.substr(colon + 1);
}

// Distributions of elements. Each operation's expand.cc says what its tensors hold under each of these.
enum class Data : std::uint8_t {
  zeros,       // +0 everywhere: background for plants
  boundaries,  // on, and one ulp to either side of, the values where a result changes
  codes,       // values for which nothing rounds
  normal,      // normal with outliers, row-wise scales of training tensors
  bits,        // uniform bit patterns of the whole type, NaN and Inf included
  specials,    // a mix dense in zeros, subnormals, Inf, NaN and extremes; whole special blocks or rows
  wide,        // every magnitude: log-uniform over the type's exponents, element by element
  sparse,      // mostly zeros
  slots,       // values that encode their position, so that swaps and shifts show
  every_bf16,  // each BF16 pattern in turn, at every scale
  every_amax,  // element (i, 0) is the FP32 or BF16 pattern seed + i
  every_word,  // element number i, row by row, is the pattern seed + i; of GEMMs: one operand one-hot
  every_row,   // routers: row i has the digits of seed + i, in an alphabet of few values; elsewhere zeros
  real,        // a window of the committed tensors of a trained model
};

inline constexpr std::string_view kDataNames[] = {"zeros",      "boundaries", "codes",     "normal", "bits",
                                                  "specials",   "wide",       "sparse",    "slots",  "every_bf16",
                                                  "every_amax", "every_word", "every_row", "real"};
constexpr std::string_view to_text(Data data) { return kDataNames[static_cast<std::size_t>(data)]; }

// An element that is given, whatever the distribution.
struct Plant {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::uint32_t bits = 0;  // of the variant's dtype; FP32's where that is FP64
  friend bool operator==(const Plant&, const Plant&) = default;
};

struct Case {
  Variant variant;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;            // of x in elements, from row to row; 0: cols
  std::int64_t col_stride = 0;        // of x in elements, from column to column, beside a stride; 0: 1
  std::vector<std::int64_t> experts;  // offsets of groups; empty: none
  std::int64_t gather = 0;            // rows of x come by index from this many rows; 0: no index
  Data data = Data::zeros;
  std::uint64_t seed = 0;
  std::vector<Plant> plants;  // at most 8, over the drawn elements
  int threads = 0;            // 0: the library's choice
  Misalignment misaligned = {};
  OwnFields own = {};  // the operation's
  friend bool operator==(const Case&, const Case&) = default;

  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
  [[nodiscard]] std::int64_t rows_of_x() const { return gather != 0 ? gather : rows; }
  // Columns of x follow one another, and the elements of a row do not: x is a transposed view.
  [[nodiscard]] bool is_turned() const { return col_stride != 0 && stride == 1; }
  // Elements that lie unused before the next row of x, or before the next column of a transposed view.
  [[nodiscard]] std::int64_t gap() const;
  // The strides of a transposed view (step 0), or of rows of every step-th element, with this gap.
  void set_col_stride(std::int64_t step, std::int64_t gap);
  void set_contiguous() { stride = col_stride = 0; }
  // After extents have changed: strides of x, if it has some, of the same kind and with the same gap as `was` has.
  void fit_strides(const Case& was);
};

std::string to_text(const Variant& variant);
std::string to_text(const Case& c);
Case parse_case(std::string_view text);
Variant parse_variant(std::string_view text);  // the fields of a variant, and no others

}  // namespace mxcheck
