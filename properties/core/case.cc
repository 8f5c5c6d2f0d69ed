#include "properties/core/case.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/core/case_text.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/misalignment.h"
#include "properties/core/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 36;

Plant parse_plant(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::size_t colon = text.find(':');
  if (comma == std::string_view::npos || colon == std::string_view::npos || colon < comma) {
    fail_field("plant", text, "ROW,COL:HEXBITS");
  }
  return {number_field<std::int64_t>("plant", text.substr(0, comma)),
          number_field<std::int64_t>("plant", text.substr(comma + 1, colon - comma - 1)),
          number_field<std::uint32_t>("plant", text.substr(colon + 1), 16)};
}

Data parse_data(std::string_view text) {
  const auto found = std::find(std::begin(kDataNames), std::end(kDataNames), text);
  if (found == std::end(kDataNames)) fail_field("data", text, "a distribution (normal, boundaries, codes, ...)");
  return static_cast<Data>(found - std::begin(kDataNames));
}

// The fields that every operation has. False: none of them.
bool set_common_field(Case& c, std::string_view field, std::string_view value) {
  if (field == "op") {  // has been read
  } else if (field == "x" || field == "d") {
    c.variant.dtype = format_field(field, value);
  } else if (field == "rows") {
    c.rows = number_field<std::int64_t>(field, value);
  } else if (field == "cols") {
    c.cols = number_field<std::int64_t>(field, value);
  } else if (field == "stride") {
    c.stride = number_field<std::int64_t>(field, value);
  } else if (field == "col_stride") {
    c.col_stride = number_field<std::int64_t>(field, value);
  } else if (field == "experts") {
    if (value.empty()) fail_field(field, value, "a list of row offsets, 0 first");
    for (std::string_view part : split(value, ',')) c.experts.push_back(number_field<std::int64_t>(field, part));
  } else if (field == "gather") {
    c.gather = number_field<std::int64_t>(field, value);
  } else if (field == "data") {
    c.data = parse_data(value);
  } else if (field == "seed") {
    c.seed = number_field<std::uint64_t>(field, value);
  } else if (field == "plant") {
    c.plants.push_back(parse_plant(value));
  } else if (field == "threads") {
    c.threads = number_field<int>(field, value);
  } else if (field == "misaligned") {
    c.misaligned = parse_misalignment(value);
  } else {
    return false;
  }
  return true;
}

void check_plants(const Case& c) {
  for (const Plant& p : c.plants) {
    if (std::uint64_t{p.bits} >> (spec(c.variant.dtype).bits - 1) > 1) {
      throw Error(ErrorKind::usage, "case field plant has more bits than x=" + std::string(spec(c.variant.dtype).name));
    }
    if (p.row < 0 || p.row >= c.rows || p.col < 0 || p.col >= c.cols) {
      throw Error(ErrorKind::usage, "case field plant lies outside the matrix");
    }
  }
}

// Rows lie apart, or columns do: no element is in two places.
void check_col_stride(const Case& c, const Operation& operation) {
  if (c.col_stride == 0) return;
  if (!operation.may_have_col_stride())
    throw Error(ErrorKind::usage,
                "case field col_stride is for an x that may have one, not for op=" + c.variant.operation);
  if (c.stride < 1 || c.col_stride < 1 || c.col_stride > kMostElements)
    throw Error(ErrorKind::usage, "case field col_stride is 1 to 2^36 elements, beside a stride of at least 1");
  const auto apart = [](std::int64_t outer, std::int64_t count, std::int64_t inner) {
    return count <= 1 || (outer - 1) / inner >= count - 1;
  };
  if (!apart(c.stride, c.cols, c.col_stride) && !apart(c.col_stride, c.rows_of_x(), c.stride))
    throw Error(ErrorKind::usage, "case fields stride and col_stride put two elements in one place");
  const auto most = static_cast<double>(kMostElements);
  const double rows = static_cast<double>(c.rows_of_x()) * static_cast<double>(c.stride);
  if (rows + static_cast<double>(c.cols) * static_cast<double>(c.col_stride) > most)
    throw Error(ErrorKind::usage, "case fields stride and col_stride span more than 2^36 elements");
}

void check_case(const Case& c) {
  const std::int64_t pitch = std::max(c.cols, c.stride);
  if (c.rows < 0 || pitch < 0 || c.cols < 0 || c.rows > kMostElements || pitch > kMostElements ||
      (pitch != 0 && c.rows > kMostElements / pitch)) {
    throw Error(ErrorKind::usage, "a case of " + std::to_string(c.rows) + " x " + std::to_string(c.cols) +
                                      " elements; at most 2^36 are possible");
  }
  if (c.stride != 0 && c.stride < c.cols && c.col_stride == 0)
    throw Error(ErrorKind::usage, "case field stride is less than cols");
  if (c.gather < 0 || c.gather > kMostElements || (c.gather != 0 && pitch != 0 && c.gather > kMostElements / pitch)) {
    throw Error(ErrorKind::usage, "case field gather is the rows of x that rows are taken from: 1 to 2^36 elements");
  }
  if (c.threads < 0) throw Error(ErrorKind::usage, "case field threads is negative; 0 is the library's choice");
  if (c.plants.size() > 8) throw Error(ErrorKind::usage, "case field plant occurs more than 8 times");
  const Operation& operation = operation_named(c.variant.operation);
  operation.check(c);
  check_col_stride(c, operation);
  if (!c.experts.empty()) check_offsets(c.experts, operation.experts_end(c));
  check_plants(c);
}

std::pair<std::string_view, std::string_view> field_and_value(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) fail_field(part, "", "of the form FIELD=VALUE");
  return {part.substr(0, equals), part.substr(equals + 1)};
}

Case fields_of(std::string_view text) {
  Case c;
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  for (std::string_view part : split(text, ' ')) {
    if (!part.empty()) fields.push_back(field_and_value(part));
  }
  for (const auto& [field, value] : fields) {
    if (field == "op") c.variant.operation = value;
  }
  if (c.variant.operation.empty()) throw Error(ErrorKind::usage, "a case without op=; the gate prints whole cases");
  const Operation& operation = operation_named(c.variant.operation);
  for (const auto& [field, value] : fields) {
    if (!operation.set_field(c, field, value) && !set_common_field(c, field, value))
      fail_field(field, value, "a field of op=" + c.variant.operation + "; the gate prints whole cases");
  }
  return c;
}

}  // namespace

std::int64_t Case::gap() const {
  const std::int64_t gap = col_stride == 0 ? stride - cols
                           : is_turned()   ? col_stride - std::max<std::int64_t>(1, rows_of_x())
                                           : stride - col_stride * cols;
  return std::max<std::int64_t>(0, gap);
}

void Case::set_col_stride(std::int64_t step, std::int64_t gap) {
  if (step == 0) {
    stride = 1, col_stride = std::max<std::int64_t>(1, rows_of_x()) + gap;
  } else {
    stride = std::max<std::int64_t>(2, step * cols + gap), col_stride = step;
  }
}

void Case::fit_strides(const Case& was) {
  if (stride == 0) return;
  if (col_stride == 0) {
    stride = cols + was.gap();
  } else {
    set_col_stride(was.is_turned() ? 0 : col_stride, was.gap());
  }
}

bool promises_bits(const Variant& v) { return operation_named(v.operation).promises_bits(v.operation); }

std::string to_text(const Variant& v) { return operation_named(v.operation).variant_text(v); }

std::string to_text(const Case& c) {
  const Operation& operation = operation_named(c.variant.operation);
  std::string text = fmt::format("{} rows={} cols={}{}", to_text(c.variant), c.rows, c.cols, operation.shape_text(c));
  if (c.stride != 0) text += fmt::format(" stride={}", c.stride);
  if (c.col_stride != 0) text += fmt::format(" col_stride={}", c.col_stride);
  if (!c.experts.empty()) {
    text += " experts=" + join(c.experts, ",", [](std::int64_t offset) { return std::to_string(offset); });
  }
  if (c.gather != 0) text += fmt::format(" gather={}", c.gather);
  text += fmt::format(" data={} seed={}", to_text(c.data), c.seed);
  const int digits = spec(c.variant.dtype).bits > 16 ? 8 : (spec(c.variant.dtype).bits + 3) / 4;  // every bit of a word
  for (const Plant& p : c.plants) text += fmt::format(" plant={},{}:{:0{}x}", p.row, p.col, p.bits, digits);
  text += operation.option_text(c);
  if (c.threads != 0) text += fmt::format(" threads={}", c.threads);
  if (c.misaligned.any()) text += " misaligned=" + to_text(c.misaligned);
  return text;
}

Case parse_case(std::string_view text) {
  Case c = fields_of(text);
  check_case(c);
  return c;
}

Variant parse_variant(std::string_view text) {
  Variant v = fields_of(text).variant;
  if (to_text(v) != text) throw Error(ErrorKind::usage, "'" + std::string(text) + "' is no variant");
  return v;
}

CallTensor output_tensor(const TensorInfo& info) {
  CallTensor t;
  t.dtype = spec(info.format).is_value ? info.format : Format::e4m3;
  t.is_index = info.integer_bits == 32, t.is_offsets = info.integer_bits == 64;
  t.shape = info.is_vector ? std::vector<std::int64_t>{info.cols} : std::vector<std::int64_t>{info.rows, info.cols};
  t.bytes = static_cast<std::uint64_t>(info.rows * info.cols) * bytes_of_element(info);
  return t;
}

Call Problem::call() const {
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(call.operation).policy(c);
  for (ProblemInput& input : inputs()) call.inputs.push_back(std::move(input.tensor));
  for (const TensorInfo& info : outputs) call.outputs.push_back(output_tensor(info));
  return call;
}

std::vector<SavedTensor> Problem::saved() const {
  std::vector<SavedTensor> saved;
  for (ProblemInput& input : inputs()) {
    const std::byte* data = input.tensor.data;
    const std::size_t size = static_cast<std::size_t>(input.info.rows * input.info.cols) * bytes_of_element(input.info);
    std::string name = input.info.name;
    if (size != 0) saved.push_back({std::move(name), std::move(input.info), {data, data + size}});
  }
  return saved;
}

std::vector<std::size_t> Problem::order() const {
  std::vector<std::size_t> all(outputs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::string Operation::variant_name(std::string_view contract) const {
  const bool is_claim = contract.starts_with("any_order") || contract.starts_with("as_accurate_as");
  if (is_claim) check_claim(contract);
  if (contract.starts_with("exact+") && !(may_have_col_stride() && contract == kExactOfAnyStrides)) {
    const std::string said = "'" + std::string(contract) + "' is no contract of " + std::string(name());
    throw Error(ErrorKind::usage, said + ": 'exact'" + (may_have_col_stride() ? " and 'exact+col_stride' are" : " is"));
  }
  return std::string(name()) + (is_claim ? ":" + std::string(contract) : "");
}

void Operation::check_claim(std::string_view claim) const {
  const auto known = claims();
  if (std::find(known.begin(), known.end(), claim) != known.end()) return;
  const std::string said = "'" + std::string(claim) + "' is no claim about " + std::string(name());
  throw Error(ErrorKind::usage,
              said + (known.empty() ? ", which promises bits" : known_names(claim, {known.begin(), known.end()})));
}

Policy Operation::question(const Variant& v) const {
  Case c;
  c.variant = v;
  return policy(c);
}

std::string Operation::shape_text(const Case&) const { return {}; }
std::string Operation::option_text(const Case&) const { return {}; }
void Operation::check(const Case&) const {}
void Operation::fit(Case&) const {}

void Operation::halve_rows(Case& c) const {
  c.rows /= 2;
  c.experts.clear();
}

// Any strides are claimed by the table where it has them, and so no option of a call.
bool Operation::is_option(const Case& c) const {
  return (c.stride > c.cols && c.col_stride == 0) || !c.experts.empty() || c.gather != 0;
}
Case Operation::without_options(Case c) const {
  c.set_contiguous();
  c.gather = 0;
  c.experts.clear();
  return c;
}

bool Operation::has_invalid_calls(const Case& c) const { return c.rows >= 2 && c.cols >= 2; }

const std::vector<const Operation*>& all_operations() {
  static const std::vector<const Operation*> operations = [] {
    std::vector<const Operation*> all;
    for (const OperationModule& module : all_modules())
      all.insert(all.end(), module.operations.begin(), module.operations.end());
    return all;
  }();
  return operations;
}

const Operation* find_operation(std::string_view operation) {
  const std::string_view name = operation.substr(0, operation.find(':'));
  for (const Operation* o : all_operations()) {
    if (o->name() == name) return o;
  }
  return nullptr;
}

const Operation& operation_named(std::string_view operation) {
  const Operation* found = find_operation(operation);
  if (found != nullptr) return *found;
  throw Error(ErrorKind::usage, "there is no operation '" + std::string(operation) + "'" + known_operations(operation));
}

std::string known_operations(std::string_view given) {
  return known_names(given, all_operations(), [](const Operation* o) { return o->name(); });
}

const OperationInfo* CandidateRunner::operation(const std::string& name) const {
  for (const OperationInfo& o : info().operations) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

bool offers(std::span<const Variant> variants, const Variant& wanted) {
  return std::find(variants.begin(), variants.end(), wanted) != variants.end();
}

namespace {

constexpr std::int64_t kWord = std::int64_t{1} << 32;
constexpr std::int64_t kQuarter = std::int64_t{1} << 62;

// No name begins with this letter.
std::string misspelt(std::string_view text) { return "z" + std::string(text.empty() ? text : text.substr(1)); }

void set_offsets(Call& call, const std::vector<std::int64_t>& offsets) {
  CallTensor t = offsets_tensor(offsets);
  t.data = call.own(to_bytes(offsets));
  for (CallTensor& input : call.inputs) {
    if (input.is_offsets) {
      input = t;
      return;
    }
  }
  call.inputs.push_back(t);
}

std::uint64_t element_bytes(const CallTensor& t) {
  return t.is_offsets ? 8 : t.is_index ? 4 : static_cast<std::uint64_t>((spec(t.dtype).bits + 7) / 8);
}

// Another extent, with memory for it: zeros, after the values that the tensor has. False where there is none to take
// away. Memory of a strided tensor stays as it is.
bool resize(Call& call, CallTensor& t, const TensorPlace& place, std::size_t dimension, int by) {
  std::int64_t& extent = t.shape[dimension];
  if (extent + by < 0) return false;
  extent += by;
  if (t.row_stride != 0) return true;
  std::uint64_t bytes = element_bytes(t);
  for (const std::int64_t n : t.shape) bytes *= static_cast<std::uint64_t>(n);
  if (!place.is_output && bytes > t.bytes) {
    std::vector<std::byte> copy(t.data, t.data + t.bytes);
    copy.resize(bytes);
    t.data = call.own(std::move(copy));
  }
  t.bytes = bytes;
  return true;
}

bool resize_rows(Call& call, CallTensor& t, const TensorPlace& place, int by) {
  return t.shape.size() == 2 && resize(call, t, place, 0, by);
}

bool resize_cols(Call& call, CallTensor& t, const TensorPlace& place, int by) {
  return !place.may_have_any_cols && resize(call, t, place, t.shape.size() - 1, by);
}

// sign * the columns and a number more.
bool set_row_stride(CallTensor& t, std::int64_t more, int sign) {
  if (t.shape.size() != 2 || t.shape[0] < 2 || t.shape[1] < 2) return false;
  t.strides = {sign * t.shape[1] + more, 1};
  return true;
}

bool set_col_stride(CallTensor& t, std::int64_t stride) {
  if (t.shape.size() != 2 || t.shape[0] < 2 || t.shape[1] < 2) return false;
  t.strides = {t.shape[1], stride};
  return true;
}

bool set_last_index(Call& call, std::int32_t value) {
  for (CallTensor& input : call.inputs) {
    if (input.is_index && input.bytes != 0)
      return change_value(call, input, static_cast<std::size_t>(input.shape[0]) - 1, value);
  }
  return false;
}

}  // namespace

std::vector<InvalidCall> common_invalid_calls() {
  const auto with_defect = [](CallDefect defect) { return [defect](Call& c) { return c.defect = defect, true; }; };
  std::vector<InvalidCall> all{
      {"the call's size is 4", with_defect(CallDefect::small_size), false, false},
      {"the policy is a null pointer", with_defect(CallDefect::null_policy)},
      {"inputs is a null pointer", with_defect(CallDefect::null_inputs)},
      {"outputs is a null pointer", with_defect(CallDefect::null_outputs)},
      {"the workspace is a null pointer", with_defect(CallDefect::null_workspace)},
      {"the workspace is one byte too small", with_defect(CallDefect::small_workspace)},
      {"the first input is missing",
       [](Call& c) {
         c.inputs.erase(c.inputs.begin());
         return true;
       }},
      {"the last input is there twice",
       [](Call& c) {
         const CallTensor last = c.inputs.back();
         c.inputs.push_back(last);
         return true;
       }},
      {"there is another tensor like the first input",
       [](Call& c) {
         const CallTensor first = c.inputs.front();
         c.inputs.push_back(first);
         return true;
       }},
      {"the last output is missing",
       [](Call& c) {
         c.outputs.pop_back();
         return true;
       }},
      {"the last output is there twice",
       [](Call& c) {
         const CallTensor last = c.outputs.back();
         c.outputs.push_back(last);
         return true;
       }},
      invalid_policy<mxcheck_policy>("the policy's rows are negative",
                                     [](mxcheck_policy& p) { return p.rows = -1, true; }),
      invalid_policy<mxcheck_policy>("the policy's rows are 2^63 - 1",
                                     [](mxcheck_policy& p) { return p.rows = INT64_MAX, true; }),
      invalid_policy<mxcheck_policy>("the policy's cols are negative",
                                     [](mxcheck_policy& p) { return p.cols = -1, true; }),
      invalid_policy<mxcheck_policy>("the policy's size is 8", [](mxcheck_policy& p) { return p.size = 8, true; }),
      {"the policy ends before the operation's own fields",
       [](Call& c) {
         if (c.policy.num_bytes == sizeof(mxcheck_policy)) return false;
         edit<mxcheck_policy>(c.policy, [](mxcheck_policy& p) { p.size = sizeof(mxcheck_policy); });
         return true;
       }},
      invalid_policy<mxcheck_policy>("the number of threads is negative",
                                     [](mxcheck_policy& p) { return p.threads = -1, true; }),
  };
  all.back().host_only = true;
  return all;
}

std::vector<TensorPlace> tensor_places(const Call& call, const Operation& operation, bool takes_col_stride) {
  const bool gathers = std::any_of(call.inputs.begin() + 1, call.inputs.end(),
                                   [](const CallTensor& t) { return t.is_index && t.shape.size() == 1; });
  std::vector<TensorPlace> places;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool any_cols = call.inputs[i].is_offsets && operation.has_offsets_of_experts();
    places.push_back(
        {false, i, i == 0 && operation.may_have_row_stride(), i == 0 && gathers, any_cols, i == 0 && takes_col_stride});
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) places.push_back({true, i});
  return places;
}

CallTensor& tensor_at(Call& call, const TensorPlace& place) {
  return (place.is_output ? call.outputs : call.inputs)[place.number];
}

std::vector<InvalidTensor> invalid_tensors() {
  using P = TensorPlace;
  using T = CallTensor;
  return {
      {"its data is a null pointer", [](Call&, T& t, const P&) { return t.bytes != 0 && (t.null_data = true); }},
      {"its shape is a null pointer", [](Call&, T& t, const P&) { return t.null_shape = true; }},
      {"its first extent is negative", [](Call&, T& t, const P&) { return t.shape.front() = -1, true; }},
      {"its last extent is negative", [](Call&, T& t, const P&) { return t.shape.back() = -1, true; }},
      {"it has one row too few",
       [](Call& c, T& t, const P& p) { return !p.may_have_any_rows && resize_rows(c, t, p, -1); }},
      {"it has one row too many",
       [](Call& c, T& t, const P& p) { return !p.may_have_any_rows && resize_rows(c, t, p, 1); }},
      {"it has one column too few", [](Call& c, T& t, const P& p) { return resize_cols(c, t, p, -1); }},
      {"it has one column too many", [](Call& c, T& t, const P& p) { return resize_cols(c, t, p, 1); }},
      {"it has one dimension too few",
       [](Call&, T& t, const P&) {
         if (t.shape.size() != 2) return false;
         t.shape = {t.shape[0] * t.shape[1]};
         t.row_stride = 0;
         return true;
       }},
      {"it has one dimension too many",
       [](Call&, T& t, const P&) {
         t.shape.insert(t.shape.begin(), 1);
         t.row_stride = 0;
         return true;
       }},
      {"it has another dtype",
       [](Call&, T& t, const P&) {
         const bool is_bytes = t.dtype == Format::e4m3 && !t.is_index && !t.is_offsets;
         t.dtype = is_bytes ? Format::fp32 : Format::e4m3;
         t.is_index = t.is_offsets = false;
         return true;
       }},
      {"its dtype has two lanes", [](Call&, T& t, const P&) { return t.lanes = 2, true; }},
      {"it is on another kind of device", [](Call&, T& t, const P&) { return t.elsewhere = true; }},
      {"it is on device number 1", [](Call&, T& t, const P&) { return t.device_id = 1, true; }},
      {"its column stride is 2",
       [](Call&, T& t, const P&) {
         const std::int64_t cols = t.shape.back();
         if (t.shape.size() == 2) t.strides = {t.row_stride != 0 ? t.row_stride : cols, 2};
         if (t.shape.size() == 1) t.strides = {2};
         return cols > 1;
       }},
      {"its rows overlap by an element", [](Call&, T& t, const P&) { return set_row_stride(t, -1, 1); }},
      {"its row stride is 0", [](Call&, T& t, const P&) { return set_row_stride(t, 0, 0); }},
      {"its row stride is negative", [](Call&, T& t, const P&) { return set_row_stride(t, 0, -1); }},
      {"it has gaps between rows",
       [](Call&, T& t, const P& p) { return !p.may_have_row_stride && set_row_stride(t, 1, 1); }},
      {"its column stride is 0", [](Call&, T& t, const P& p) { return p.may_have_col_stride && set_col_stride(t, 0); }},
      {"its column stride is negative",
       [](Call&, T& t, const P& p) { return p.may_have_col_stride && set_col_stride(t, -1); }},
  };
}

void add_invalid(std::vector<InvalidCall>& to, std::initializer_list<std::vector<InvalidCall>> families) {
  for (const std::vector<InvalidCall>& family : families) to.insert(to.end(), family.begin(), family.end());
}

std::vector<InvalidCall> disagreeing_extents(std::vector<InvalidCall> others) {
  using P = mxcheck_policy;
  std::vector<InvalidCall> all{
      invalid_policy<P>("the policy's cols disagree with the tensors", [](P& p) { return ++p.cols != 0; }),
      invalid_policy<P>("the policy's cols are 2^63 - 1", [](P& p) { return p.cols = INT64_MAX, true; }),
      // The right number in 32 bits, and often the right product in 64.
      wrapping_policy<P>("the policy's rows are 2^32 more", [](P& p) { return p.rows += kWord, true; }),
      wrapping_policy<P>("the policy's rows are 2^62 more", [](P& p) { return p.rows += kQuarter, true; }),
      wrapping_policy<P>("the policy's cols are 2^32 more", [](P& p) { return p.cols += kWord, true; }),
      wrapping_policy<P>("the policy's cols are 2^62 more", [](P& p) { return p.cols += kQuarter, true; }),
  };
  add_invalid(all, {std::move(others)});
  return all;
}

InvalidCall unknown_format() {
  return {"the format is unknown", [](Call& call) {
            const std::string wrong = misspelt(read<mxcheck_policy>(call.policy).format);
            edit<mxcheck_policy>(call.policy, [&](mxcheck_policy& p) { p.format = wrong.c_str(); });
            return true;
          }};
}

InvalidCall unknown_recipe() {
  return {"the recipe is unknown", [](Call& call) {
            const std::string wrong = misspelt(read<mxcheck_policy>(call.policy).recipe);
            edit<mxcheck_policy>(call.policy, [&](mxcheck_policy& p) { p.recipe = wrong.c_str(); });
            return true;
          }};
}

InvalidCall unknown_layout() {
  return invalid_policy<mxcheck_policy>("the layout is unknown", [](mxcheck_policy& p) {
    p.layout = 7;
    return true;
  });
}

InvalidCall negative_layout() {
  return invalid_policy<mxcheck_policy>("the layout is negative", [](mxcheck_policy& p) {
    p.layout = -1;
    return true;
  });
}

std::vector<InvalidCall> invalid_blocks() {
  using P = mxcheck_policy;
  return {
      invalid_policy<P>("the blocks have a negative number of rows", [](P& p) { return p.block_rows = -32, true; }),
      invalid_policy<P>("the blocks have a negative number of columns", [](P& p) { return p.block_cols = -32, true; }),
      invalid_policy<P>("the blocks have 7 columns", [](P& p) { return p.block_cols = 7, true; }),
      invalid_policy<P>("the blocks have 2^63 - 1 rows", [](P& p) { return p.block_rows = INT64_MAX, true; }),
      invalid_policy<P>("the blocks have 2^63 - 1 columns", [](P& p) { return p.block_cols = INT64_MAX, true; }),
  };
}

InvalidCall unwanted_offsets() {
  return {"there are offsets, which the operation has not", [](Call& c) {
            set_offsets(c, {0, read<mxcheck_policy>(c.policy).rows});
            return true;
          }};
}

InvalidCall unwanted_row_index() {
  return {"there is a row index, which the operation has not", [](Call& c) {
            const std::vector<std::int32_t> index(
                static_cast<std::size_t>(read<mxcheck_policy>(c.policy).rows));  // all of them 0
            CallTensor t = index_tensor(index);
            t.data = c.own(to_bytes(index));
            c.inputs.push_back(t);
            return true;
          }};
}

std::vector<InvalidCall> invalid_offsets(const std::function<std::int64_t(const Call&)>& end) {
  return {
      {"the offsets are not sorted",
       [end](Call& c) {
         const std::int64_t last = end(c);
         if (last <= 2) return false;
         set_offsets(c, {0, last, 1, last});
         return true;
       }},
      {"the last offset is not the row count",
       [end](Call& c) {
         set_offsets(c, {0, end(c) / 2, end(c) + 1});
         return true;
       }},
      {"the first offset is not zero",
       [end](Call& c) {
         set_offsets(c, {1, end(c)});
         return true;
       }},
  };
}

namespace {

using Offsets = std::vector<std::int64_t>;

// One between the first and the last above the next, or below the one before; false where there is no such place.
bool descend(Offsets& o, std::uint64_t drawn) {
  for (std::size_t tried = 0; tried + 2 < o.size(); ++tried) {
    const std::size_t at = 1 + (drawn + tried) % (o.size() - 2);
    const bool has_above = o[at + 1] < o.back();
    if (!has_above && o[at - 1] == 0) continue;
    o[at] = has_above ? o[at + 1] + 1 : o[at - 1] - 1;
    return true;
  }
  return false;
}

InvalidCall offsets_that(const char* how, std::uint64_t drawn, bool (*change)(Offsets&, std::uint64_t)) {
  return {how, [=](Call& call) {
            std::vector<CallTensor*> lists;
            for (CallTensor& input : call.inputs) {
              if (input.is_offsets && input.bytes != 0) lists.push_back(&input);
            }
            if (lists.empty()) return false;
            CallTensor& list = *lists[drawn % lists.size()];
            Offsets offsets = values_in<std::int64_t>({list.data, list.bytes});
            if (!change(offsets, drawn >> 8)) return false;
            list.data = call.own(to_bytes(offsets));
            return true;
          }};
}

}  // namespace

std::vector<InvalidCall> misplaced_offsets(std::uint64_t drawn) {
  return {
      offsets_that("the offsets descend at one place", drawn, descend),
      offsets_that("2^32 is added to one offset", drawn,
                   [](Offsets& o, std::uint64_t at) { return o[at % o.size()] += kWord, true; }),
      offsets_that("2^32 is added to the last offset", drawn,
                   [](Offsets& o, std::uint64_t) { return o.back() += kWord, true; }),
      offsets_that("the sign of one offset is set", drawn,
                   [](Offsets& o, std::uint64_t at) { return o[at % o.size()] += INT64_MIN, true; }),
  };
}

std::vector<InvalidCall> invalid_row_index() {
  return {
      {"a row index is negative", [](Call& c) { return set_last_index(c, -1); }},
      {"a row index is the number of rows that there are",
       [](Call& c) { return set_last_index(c, static_cast<std::int32_t>(c.inputs[0].shape[0])); }},
  };
}

namespace {

constexpr int kMost = 63;

std::string list_of(const std::array<std::uint8_t, 4>& bytes) {
  return join(bytes, ",", [](std::uint8_t byte) { return std::to_string(byte); });
}

std::array<std::uint8_t, 4> parse_list(std::string_view whole, std::string_view text) {
  constexpr std::string_view kRight =
      "the bytes past a multiple of 64 of four inputs and four outputs: 3,0,0,0/5,0,0,0";
  std::array<std::uint8_t, 4> bytes{};
  const auto parts = split(text, ',');
  if (parts.size() != bytes.size()) fail_field("misaligned", whole, kRight);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = number_field<std::uint8_t>("misaligned", parts[i]);
    if (bytes[i] > kMost) fail_field("misaligned", whole, kRight);
  }
  return bytes;
}

}  // namespace

std::string to_text(const Misalignment& m) { return list_of(m.inputs) + "/" + list_of(m.outputs); }

Misalignment parse_misalignment(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view inputs = text.substr(0, slash);
  const std::string_view outputs = slash == std::string_view::npos ? std::string_view{} : text.substr(slash + 1);
  return {parse_list(text, inputs), parse_list(text, outputs)};
}

}  // namespace mxcheck
