#include "properties/goldens/case.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/packing.h"
#include "numerics/text.h"
#include "properties/core/finding.h"
#include "properties/core/operation.h"
#include "properties/goldens/input.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostToExplain = std::int64_t{1} << 20;  // elements of all outputs: there are hundreds of rows

// The work of the case with other extents. It fits 64 bits: Operation::check bounds operands first.
std::int64_t work_of(const Operation& operation, Case c, std::int64_t rows, std::int64_t cols) {
  c.rows = rows, c.cols = cols;
  return operation.work(c);
}

// Experts, sources of gathered rows and a product's depth are extents too: each pair of two is a matrix.
void check_size(const Operation& operation, const Case& c) {
  const std::int64_t rows = std::max<std::int64_t>({c.rows, c.gather, 1}), cols = std::max<std::int64_t>(c.cols, 1);
  const auto experts = static_cast<std::int64_t>(c.experts.size()) + 1;
  const bool fits = rows <= kMostCaseMatrix && cols <= kMostCaseMatrix && rows <= kMostCaseMatrix / cols &&
                    work_of(operation, c, 1, cols) <= kMostCaseMatrix / experts &&
                    work_of(operation, c, rows, 1) <= kMostCaseMatrix &&
                    work_of(operation, c, rows, cols) <= kMostCaseWork;
  if (fits) return;
  throw Error(
      ErrorKind::usage,
      fmt::format("a case of that size: a golden has at most {} multiplications or elements in all, and {} of one "
                  "row, of one column, or of a matrix",
                  kMostCaseWork, kMostCaseMatrix));
}

std::string dataset_name(const std::string& name) {
  std::string out = name;
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return std::isdigit(static_cast<unsigned char>(out.front())) != 0 ? "_" + out : out;
}

bool is_packed(const TensorInfo& info) { return info.integer_bits == 0 && info.format == Format::e2m1x2; }

// Two codes a byte become one a byte, as in every golden; the high nibble after an odd row's last code is one of them.
Bytes unpacked(const TensorInfo& info, std::span<const std::byte> bytes) {
  return is_packed(info) ? to_bytes(unpacked_rows(bytes, 2 * info.cols)) : Bytes(bytes.begin(), bytes.end());
}

DatasetInfo dataset_of(const TensorInfo& info, Role role, const CallTensor& tensor) {
  DatasetInfo d;
  const Format element = is_packed(info) ? Format::e2m1 : info.format;
  d.name = dataset_name(info.name), d.role = role;
  d.dtype = info.integer_bits == 64 ? Format::int64 : info.integer_bits == 32 ? Format::int32 : bits_of(element);
  d.format = info.integer_bits == 64   ? "int64"
             : info.integer_bits == 32 ? "int32"
                                       : std::string(spec(element).dtype_name);
  d.shape = tensor.shape.size() <= 2 ? tensor.shape : std::vector<std::int64_t>{info.rows, info.cols};
  if (is_packed(info)) d.shape.back() *= 2;
  return d;
}

// Operations with files of their own for saved cases do not say what their first input is called.
TensorInfo info_of(const ProblemInput& in) {
  if (!in.info.name.empty()) return in.info;
  return {"x", in.tensor.dtype, in.tensor.shape.front(), in.tensor.shape.back()};
}

std::string open_text(const CallTensor& output) {
  return join(output.open, " ", [](const auto& range) { return fmt::format("{}:{}", range.first, range.second); });
}

MadeGolden make_case(const GoldenSpec& golden, const MakeOptions&) {
  const auto& c = golden.get<Case>();
  const std::unique_ptr<Problem> problem = operation_named(c.variant.operation).make_problem(c);
  const Call call = problem->call();
  MadeGolden made;
  made.info.attributes = common_attributes(golden);
  made.info.attributes.emplace_back("case", to_text(c));
  std::istringstream fields(to_text(c));
  for (std::string field; fields >> field;) {
    const std::size_t equals = field.find('=');
    made.info.attributes.emplace_back("case_" + field.substr(0, equals), field.substr(equals + 1));
  }
  std::set<std::string> names;
  const auto add = [&](DatasetInfo info, Bytes bytes) {
    if (!names.insert(info.name).second) info.name += "_" + std::string(to_text(info.role));
    made.info.datasets.push_back(std::move(info));
    made.data.push_back(std::move(bytes));
  };
  for (const ProblemInput& in : problem->inputs()) {
    const TensorInfo info = info_of(in);
    const std::span<const std::byte> bytes(in.tensor.data, static_cast<std::size_t>(in.tensor.bytes));
    add(dataset_of(info, Role::input, in.tensor), unpacked(info, bytes));
  }
  const std::vector<ExpectedTensor> answer = problem->answer();
  for (std::size_t i = 0; i < answer.size(); ++i) {
    DatasetInfo info = dataset_of(answer[i].info, Role::output, call.outputs.at(i));
    info.attributes.emplace_back("output", std::to_string(i));
    if (!call.outputs[i].open.empty()) info.attributes.emplace_back("open", open_text(call.outputs[i]));
    add(std::move(info), unpacked(answer[i].info, answer[i].bytes));
  }
  return made;
}

std::any parse_case_golden(JsonObject& o) {
  return at_place(o, "case", [&] { return golden_case(o.text("case")); });
}

// ---- why a candidate's dataset differs

std::shared_ptr<const Problem> problem_of(const GoldenTensors& golden) {
  try {
    const Case c = golden_case(attribute(golden.info.attributes, "case"));
    return operation_named(c.variant.operation).make_problem(c);
  } catch (const Error& e) {
    throw Error(ErrorKind::golden, std::string("its attribute case: ") + e.what());
  }
}

// Its place among the call's outputs; nothing for a dataset of another golden's.
std::optional<std::size_t> place_of(const Problem& problem, const DatasetInfo& dataset) {
  for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
    if (attribute(dataset.attributes, "output") == std::to_string(i)) return i;
  }
  return std::nullopt;
}

// The candidate's outputs, if it has all of them; codes may be right under its own scales.
std::vector<Bytes> observed_outputs(const Problem& problem, const GoldenTensors& golden,
                                    const CandidateTensor& candidate) {
  std::vector<Bytes> all;
  for (const DatasetInfo& info : golden.info.datasets) {
    if (info.role != Role::output || all.size() == problem.outputs.size()) continue;
    std::optional<Tensor> own = candidate(info.name);
    if (!own || own->data.size() != golden_tensor(golden, info.name).data.size()) return {};
    const TensorInfo& of_problem = problem.outputs[all.size()];
    all.push_back(is_packed(of_problem) ? packed_rows(own->as<std::uint8_t>(), 2 * of_problem.cols)
                                        : std::move(own->data));
  }
  return all.size() == problem.outputs.size() ? all : std::vector<Bytes>();
}

Table rows_of_case(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate) {
  const std::shared_ptr<const Problem> problem = problem_of(golden);
  const std::optional<std::size_t> place = place_of(*problem, dataset);
  std::int64_t elements = 0;
  for (const TensorInfo& info : problem->outputs) elements += info.rows * info.cols;
  if (!place || elements > kMostToExplain) return {};
  // Rows may refer to what was observed.
  const auto observed = std::make_shared<std::vector<Bytes>>(observed_outputs(*problem, golden, candidate));
  Table rows = owning(owning(problem->definitions(*observed), problem), observed);
  return rows_of_dataset(std::move(rows), *place,
                         [info = problem->outputs[*place]](const Bytes& bytes) { return unpacked(info, bytes); });
}

std::vector<std::string> explain_case(const GoldenTensors& golden, const DatasetInfo& dataset,
                                      const Difference& difference) {
  const std::shared_ptr<const Problem> problem = problem_of(golden);
  const std::optional<std::size_t> place = place_of(*problem, dataset);
  if (!place || is_packed(problem->outputs[*place])) return {};
  Finding finding;
  finding.difference = difference;
  problem->explain(*place, finding);
  return finding.element;
}

}  // namespace

Case golden_case(const std::string& text) {
  const std::size_t begin = text.find("op=");
  const Case c = parse_case(begin == std::string::npos ? text : text.substr(begin));
  const Operation& operation = operation_named(c.variant.operation);
  if (c.stride != 0 || c.col_stride != 0 || c.threads != 0 || c.misaligned.any())
    throw Error(ErrorKind::usage,
                "the case has stride, col_stride, threads or misaligned: leave them out, as they change no output");
  operation.check(c);
  check_size(operation, c);
  return c;
}

const GoldenKind& case_golden_kind() {
  static const GoldenKind kind("case", parse_case_golden, make_case, rows_of_case, nullptr, explain_case);
  return kind;
}

}  // namespace mxcheck
