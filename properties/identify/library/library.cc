#include "properties/identify/library/library.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/statement.h"
#include "properties/gate/coverage/parts.h"
#include "properties/identify/blocks.h"
#include "properties/identify/library/boxes.h"
#include "properties/identify/library/posing.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/router/fields.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

constexpr int kMostEnds = 3;  // of an operation: a library that never returns takes the time limit each time

struct Offered {
  std::vector<Variant> variants;
  std::vector<std::string> not_asked;
};

// The same questions as the gate's (properties/gate/statement_run.h); supports() of a library may crash too.
Offered offered_by(CandidateProcess& process, const std::vector<std::string>& wanted) {
  Offered offered;
  for (const OperationInfo& info : process.info().operations) {
    const Operation* operation = find_operation(info.name);
    const auto among = [&](const std::vector<std::string>& names) {
      return operation != nullptr && std::ranges::find(names, operation->name()) != names.end();
    };
    if (!among(operations_of(""))) offered.not_asked.push_back(info.name);
    if (!among(wanted)) continue;
    for (Variant& v : operation->askable(info.name)) {
      if (v.dtype == Format::fp64) continue;  // boxes are asked with values of 32 bits
      if (process.supports(v.operation, operation->question(v), v.dtype)) offered.variants.push_back(std::move(v));
    }
  }
  return offered;
}

std::string indented(const std::string& text) {
  std::string all;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty()) all += "  " + std::string(line) + "\n";
  }
  return all;
}

}  // namespace

std::size_t LibraryReport::holding() const {
  return static_cast<std::size_t>(std::ranges::count_if(policies, [](const auto& p) { return p.holds(); }));
}

std::size_t LibraryReport::ended() const {
  return static_cast<std::size_t>(std::ranges::count_if(policies, [](const auto& p) { return p.ended; }));
}

void check_operation(const LibraryQuestion& question) {
  if (!operations_of(question.op).empty()) return;
  throw Error(ErrorKind::usage, "'" + question.op + "' is no operation; matmul, quantize, cast, scale and route are" +
                                    did_you_mean(question.op, {"matmul", "quantize", "cast", "scale", "route"}));
}

namespace {

// Error{usage} where `only` alone leaves nothing to ask: with the fields that the policies have.
void check_only(const LibraryQuestion& question, const std::vector<Variant>& offered) {
  LibraryQuestion all = question;
  all.only.clear();
  std::set<std::string> fields;
  for (const Variant& v : asked_of(all, offered)) {
    const std::string text = to_text(v);
    for (const std::string_view field : split(text, ' ')) fields.emplace(field);
  }
  if (fields.empty()) return;
  throw Error(ErrorKind::usage, "--only '" + question.only + "' is in the text of no policy" +
                                    known_names(question.only, {fields.begin(), fields.end()}));
}

}  // namespace

LibraryReport identify_library(CandidateProcess& process, const LibraryQuestion& question,
                               const std::function<void(const PolicyReport&)>& each) {
  check_operation(question);
  const std::vector<std::string> wanted = operations_of(question.op);
  LibraryReport report;
  report.candidate = process.info();
  Offered offered = offered_by(process, wanted);
  report.offered = offered.variants.size();
  report.not_asked = std::move(offered.not_asked);
  std::map<std::string, int> ends;
  const std::vector<Variant> asked = asked_of(question, offered.variants);
  if (asked.empty()) check_only(question, offered.variants);
  for (const Variant& v : asked) {
    if (ends[v.operation] == kMostEnds) continue;
    report.policies.push_back(identify_policy(process, v, question));
    if (each) each(report.policies.back());
    if (!report.policies.back().ended) continue;
    process.restart();
    if (++ends[v.operation] == kMostEnds) {
      report.not_asked.push_back("the rest of " + v.operation + ", which ended its process " +
                                 std::to_string(kMostEnds) + " times");
    }
  }
  return report;
}

std::string header_text(const CandidateInfo& c) {
  return "candidate " + c.name + " " + c.version + " (" + c.path + ", digest " + c.digest + ")\n";
}

namespace {

std::string scope_text(const PolicyReport& p) {
  const std::string probes = fmt::format("{} words of {} probes", p.match->compared, p.match->probes);
  if (!p.corners) return probes;
  return fmt::format("{}, {} words of {} cases of the gate in {} shapes", probes, p.corners->words, p.corners->cases,
                     p.corners->shapes.size());
}

// Every probe is as declared, and a case of the gate is not.
std::string corner_text(const PolicyReport& p) {
  const Finding& finding = *p.corners->finding;
  std::string text = "UNEXPLAINED   " + p.policy + "\n  declared      " + p.match->declared +
                     ", which is WRONG in a case of the gate, though it explains " + std::to_string(p.match->compared) +
                     " words of " + std::to_string(p.match->probes) + " probes\n  case          " + p.corners->failing +
                     "\n  finding       " + finding.summary + "\n";
  for (const std::string& line : finding.element) text += "    " + line + "\n";
  for (const std::string& name : finding.matches) text += "  a slip        " + name + ": every bit of this case\n";
  for (const std::string& line : finding.likely) text += "  likely        " + line + "\n";
  return text + "  compared      " + scope_text(p) + "\n";
}

}  // namespace

std::string to_text(const PolicyReport& p) {
  if (p.holds()) {
    std::string line = "as declared   " + p.policy + ": " + scope_text(p);
    if (p.match->explaining.size() > 1) {
      line += "; identical here " + join(std::span(p.match->explaining).subspan(1));
    }
    return line + "\n" + (p.order ? indented(to_text(*p.order)) : "");
  }
  if (!p.match) return (p.ended ? "FAULT         " : "no answer     ") + p.policy + "\n  " + p.trouble + "\n";
  if (p.corners && p.corners->finding) return corner_text(p);
  const char* verdict = p.match->explained() ? "OTHERWISE     " : "UNEXPLAINED   ";
  std::string text = verdict + p.policy + "\n" + indented(to_text(*p.match));
  if (p.order) text += indented(to_text(*p.order));
  if (p.scales) text += "  its scales alone:\n" + indented(to_text(*p.scales));
  if (p.elements) text += "  its elements under its own scales:\n" + indented(to_text(*p.elements));
  if (!p.trouble.empty()) text += "  " + p.trouble + "\n";
  return text;
}

std::string summary_text(const LibraryReport& report) {
  std::size_t other = 0;
  std::size_t unexplained = 0;
  for (const PolicyReport& p : report.policies) {
    if (!p.match || p.holds()) continue;
    ++(p.match->explained() && !(p.corners && p.corners->finding) ? other : unexplained);
  }
  const std::size_t silent = report.policies.size() - report.holding() - other - unexplained;
  std::string text = std::to_string(report.policies.size()) + " policies asked of " + std::to_string(report.offered) +
                     " offered: " + std::to_string(report.holding()) + " as declared, " + std::to_string(other) +
                     " otherwise, " + std::to_string(unexplained) + " unexplained, " + std::to_string(silent) +
                     " without an answer\n";
  if (!report.not_asked.empty()) text += "not probed    " + join(std::span(report.not_asked)) + "\n";
  return text;
}

namespace {

Json to_json(const CornerReport& corners) {
  Json finding;
  if (corners.finding)
    finding = Json{{"case", corners.failing},
                   {"summary", corners.finding->summary},
                   {"element", corners.finding->element},
                   {"matches", corners.finding->matches}};
  return {{"cases", corners.cases},
          {"words", corners.words},
          {"shapes", corners.shapes.size()},
          {"finding", std::move(finding)}};
}

}  // namespace

Json to_json(const LibraryReport& report) {
  const CandidateInfo& c = report.candidate;
  Json policies = Json::array();
  for (const PolicyReport& p : report.policies) {
    policies.push_back({{"operation", p.operation},
                        {"policy", p.policy},
                        {"holds", p.holds()},
                        {"ended", p.ended},
                        {"trouble", p.trouble},
                        {"match", p.match ? to_json(*p.match, p.order) : Json()},
                        {"scales", p.scales ? to_json(*p.scales) : Json()},
                        {"elements", p.elements ? to_json(*p.elements) : Json()},
                        {"corners", p.corners ? to_json(*p.corners) : Json()}});
  }
  return {{"candidate", Json{{"path", c.path}, {"name", c.name}, {"version", c.version}, {"digest", c.digest}}},
          {"policies", std::move(policies)},
          {"offered", report.offered},
          {"as_declared", report.holding()},
          {"not_asked", report.not_asked}};
}

namespace {

constexpr std::string_view kCastRule = "nearest_even, saturate";  // kernels/candidate.h

bool is(const Variant& v, std::string_view operation) { return v.operation == operation; }

void identify_matmul(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question, PolicyReport& report) {
  const MatmulVariant& own = matmul_of(v);
  ProductSpace space{own.format, own.format_b, v.dtype, question.k};
  if (own.scales != MXCHECK_NO_SCALES) {
    space.scale_k = own.block.cols, space.a_scale_rows = own.block.rows, space.b_scale_rows = own.block_b.rows;
    space.scale_format = own.scales == MXCHECK_E8M0 ? Format::e8m0 : Format::fp32;
  }
  const ProductBox box = [&](const ProductCall& call) {
    Posing p(runner, v, call.m, call.n, [&](Case& c) { matmul_case(c).depth = call.k; });
    p.set(0, call.a_format, call.a, call.m, call.k);
    p.set(1, call.b_format, call.b, call.n, call.k);
    if (call.scale_k != 0) {
      const std::int64_t blocks = ceil_div(call.k, call.scale_k);
      const std::uint32_t one = encode(call.scale_format, 1, Rounding::nearest_even, Overflow::saturate);
      p.set(2, call.scale_format, call.a_scales, ceil_div(call.m, call.a_scale_rows), blocks, one);
      p.set(3, call.scale_format, call.b_scales, ceil_div(call.n, call.b_scale_rows), blocks, one);
    }
    p.run();
    return p.words(0, call.m, call.n);
  };
  const std::string declared(contract_text(v.operation));
  report.match = identify_product(space, box, {declared, TreeWanted::never}).match;
  if (report.match->explained() && !question.always_tree) return;
  space.k = question.tree_k;
  report.order = reveal_order(space, box);
}

// Rows at a time: as many whole blocks as the candidate takes.
std::int64_t rows_at_once(const CandidateRunner& runner, const Variant& v, std::int64_t height, std::int64_t rows) {
  const OperationInfo* limits = runner.operation(v.operation);
  if (limits == nullptr || limits->max_rows == 0 || limits->max_rows >= rows) return rows;
  return std::max<std::int64_t>(1, limits->max_rows / limits->rows_multiple * limits->rows_multiple / height) * height;
}

void append(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& words) {
  to.insert(to.end(), words.begin(), words.end());
}

std::vector<std::uint32_t> transposed(const std::vector<std::uint32_t>& words, std::int64_t rows, std::int64_t cols) {
  std::vector<std::uint32_t> turned(words.size());
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    turned[static_cast<std::size_t>(i % cols * rows + i / cols)] = words[static_cast<std::size_t>(i)];
  }
  return turned;
}

QuantizeAnswer quantized(CandidateRunner& runner, const Variant& v, const QuantizeCall& call) {
  const bool turned = is(v, "quantize_transposed");
  const std::int64_t height = call.block.height(call.rows);
  const std::int64_t width = call.block.width(call.cols);
  const std::int64_t each = rows_at_once(runner, v, height, call.rows);
  const std::int64_t blocks = ceil_div(call.cols, width);
  QuantizeAnswer answer;
  for (std::int64_t first = 0; first < call.rows; first += each) {
    const std::int64_t rows = std::min(each, call.rows - first);
    const std::vector<float> x(call.x.begin() + first * call.cols, call.x.begin() + (first + rows) * call.cols);
    Posing p(runner, v, rows, call.cols);
    p.set(0, v.dtype, value_words(v.dtype, x), rows, call.cols);
    p.run();
    const std::int64_t scale_rows = ceil_div(rows, height);
    append(answer.codes,
           turned ? transposed(p.words(0, call.cols, rows), call.cols, rows) : p.words(0, rows, call.cols));
    append(answer.scales,
           turned ? transposed(p.words(1, blocks, scale_rows), blocks, scale_rows) : p.words(1, scale_rows, blocks));
    answer.fp32_scales = p.type(1) == Format::fp32;
  }
  return answer;
}

void identify_blocks(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question, PolicyReport& report) {
  const ScaledBlocksVariant& own = blocks_of(v);
  const QuantizeBox box = [&](const QuantizeCall& call) { return quantized(runner, v, call); };
  if (question.op == "scale") {
    report.match = identify_scales(own.format, own.block, box, {own.recipe, v.dtype});
    return;
  }
  const OperationInfo* limits = runner.operation(v.operation);
  const std::int64_t most_cols = limits == nullptr ? 0 : limits->max_cols;
  QuantizeMatch found = identify_quantize(own.format, own.block, box, {own.recipe, v.dtype, {}, most_cols});
  report.match = std::move(found.match), report.scales = std::move(found.scales);
  report.elements = std::move(found.elements);
}

void identify_casts(CandidateRunner& runner, const Variant& v, PolicyReport& report) {
  constexpr std::int64_t kCols = 64;
  const CastBox box = [&](std::span<const float> values) {
    std::vector<float> x(values.begin(), values.end());
    const std::int64_t rows = ceil_div(static_cast<std::int64_t>(x.size()), kCols);
    x.resize(static_cast<std::size_t>(rows * kCols));
    const std::int64_t each = rows_at_once(runner, v, 1, rows);
    std::vector<std::uint32_t> codes;
    for (std::int64_t first = 0; first < rows; first += each) {
      const std::int64_t count = std::min(each, rows - first);
      Posing p(runner, v, count, kCols);
      const std::vector<float> part(x.begin() + first * kCols, x.begin() + (first + count) * kCols);
      p.set(0, v.dtype, value_words(v.dtype, part), count, kCols);
      p.run();
      append(codes, p.words(0, count, kCols));
    }
    codes.resize(values.size());
    return codes;
  };
  report.match = identify_cast(blocks_of(v).format, box, {std::string(kCastRule), v.dtype});
}

void identify_routes(CandidateRunner& runner, const Variant& v, PolicyReport& report) {
  RouteSpace space{32, 4, v.dtype};
  if (const OperationInfo* limits = runner.operation(v.operation)) {
    space.experts = ceil_div(space.experts, limits->cols_multiple) * limits->cols_multiple;
  }
  const RouteBox box = [&](const RouteCall& call) {
    Posing p(runner, v, call.tokens, call.experts, [&](Case& c) { route_case(c).top_k = call.top_k; });
    p.set(0, v.dtype, value_words(v.dtype, call.logits), call.tokens, call.experts);
    p.run();
    RouteAnswer answer;
    for (std::uint32_t e : p.words(0, call.tokens, call.top_k)) answer.experts.push_back(static_cast<std::int32_t>(e));
    for (std::uint32_t w : p.words(1, call.tokens, call.top_k)) answer.weights.push_back(std::bit_cast<float>(w));
    return answer;
  };
  report.match = identify_router(space, box, route_of(v).router);
}

// Less is asked first: what is kept of several that differ in this alone.
std::int64_t preference(const Variant& v) {
  const std::int64_t type = v.dtype == Format::fp32 ? 0 : v.dtype == Format::bf16 ? 1 : 2;
  if (reads_logits(v)) return type * 2 + (route_of(v).nan_last ? 0 : 1);
  const BlockShape block = blocks_of(v).block;
  return (block.height(1) * block.width(64)) * 4 + type;
}

std::string group_of(const Variant& v) {
  if (reads_logits(v)) return v.operation + " " + route_of(v).router;
  return v.operation + " " + std::string(spec(blocks_of(v).format).name) + " " + blocks_of(v).recipe;
}

bool has_options(const Variant& v) {
  if (is_matmul(v.operation)) return matmul_of(v).groups != MXCHECK_DENSE;
  if (reads_logits(v)) return route_of(v).bias || route_of(v).limited;
  return blocks_of(v).layout != MXCHECK_COMPACT || spec(blocks_of(v).format).bits > 8;
}

}  // namespace

std::vector<std::string> operations_of(const std::string& op) {
  const std::vector<std::string> blocks{"quantize", "quantize_transposed"};
  if (op.empty()) return {"matmul", "quantize", "quantize_transposed", "cast", "route"};
  if (op == "quantize" || op == "scale") return blocks;
  if (op == "matmul" || op == "cast" || op == "route") return {op};
  return {};
}

std::vector<Variant> asked_of(const LibraryQuestion& question, const std::vector<Variant>& offered) {
  std::vector<Variant> asked;
  std::map<std::string, std::size_t> chosen;
  const std::vector<std::string> wanted = operations_of(question.op);
  for (const Variant& v : offered) {
    const std::string name(operation_named(v.operation).name());
    if (std::ranges::find(wanted, name) == wanted.end() || has_options(v)) continue;
    if (to_text(v).find(question.only) == std::string::npos) continue;
    if (is_matmul(v.operation)) {
      asked.push_back(v);
      continue;
    }
    const auto [at, is_new] = chosen.try_emplace(group_of(v), asked.size());
    if (is_new) {
      asked.push_back(v);
    } else if (preference(v) < preference(asked[at->second])) {
      asked[at->second] = v;
    }
  }
  return asked;
}

namespace {

constexpr std::int64_t kMostWorkOfCorner = std::int64_t{1} << 20;  // elements or multiplications
constexpr int kRandomCases = 24;

// The cases of a statement that is about equality, or about words one after another.
std::vector<Case> cases_of(const Statement& s, CandidateRunner& runner, const Variant& v) {
  std::vector<Case> cases;
  const bool is_other_device = s.device == (runner.info().cuda ? Statement::Device::host : Statement::Device::cuda);
  if (is_other_device || s.of_the_interface || !s.applies(v, {&v, 1})) return cases;
  if (!s.covers_pairs && !s.data.empty()) return cases;
  if (s.corners) cases = s.corners(v, Suite::quick);
  if (!s.covers_pairs) return cases;
  Draw draw(derived_seed(0, s.name));
  for (const Part& part : parts_of(s, {v}, Suite::quick, false, runner)) {
    for (Case& c : part.covering->cases(false, draw)) cases.push_back(std::move(c));
    for (int i = 0; i < kRandomCases; ++i) {
      std::optional<Case> c = part.domain->make(part.domain->of_variant(0), part.domain->small_work(), draw);
      if (c) cases.push_back(*std::move(c));
    }
  }
  return cases;
}

// Ends with the first case that differs.
void hold_to_corners(CandidateRunner& runner, const Variant& v, CornerReport& report) {
  const Operation& operation = operation_named(v.operation);
  CheckContext context{runner, {&v, 1}};
  context.thorough = true;
  for (const Statement& s : all_statements()) {
    for (const Case& drawn : cases_of(s, runner, v)) {
      const Case c = within_limits(drawn, *runner.operation(v.operation));
      if (operation.work(c) > kMostWorkOfCorner) continue;
      context.not_offered = context.not_applicable = false;
      const std::unique_ptr<Problem> problem = make_problem(c);
      const std::vector<ExpectedTensor> answer = problem->answer();
      report.finding = equals_answer(context, *problem, answer, {});
      if (report.finding) return void(report.failing = to_text(c));
      if (context.not_offered || context.not_applicable) continue;
      ++report.cases;
      report.shapes.insert(fmt::format("{} x {}{}", c.rows, c.cols, operation.shape_text(c)));
      for (const ExpectedTensor& t : answer)
        report.words += static_cast<std::int64_t>(t.bytes.size() / bytes_of_element(t.info));
    }
  }
}

}  // namespace

PolicyReport identify_policy(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question) {
  PolicyReport report{std::string(operation_named(v.operation).name()), to_text(v)};
  try {
    if (is_matmul(v.operation)) {
      identify_matmul(runner, v, question, report);
    } else if (is(v, "cast")) {
      identify_casts(runner, v, report);
    } else if (is(v, "route")) {
      identify_routes(runner, v, report);
    } else {
      identify_blocks(runner, v, question, report);
    }
    if (!report.holds() || question.op == "scale" || !promises_bits(v)) return report;
    report.corners.emplace();
    hold_to_corners(runner, v, *report.corners);
    report.ended = report.corners->finding && report.corners->finding->kind == FindingKind::fault;
  } catch (const CallFailed& failed) {
    report.ended = failed.ended;
    report.trouble = failed.what;
  }
  return report;
}

namespace {

std::size_t width_of(const CallTensor& t) {
  if (t.is_offsets) return 8;
  if (t.is_index) return 4;
  return spec(t.dtype).bits <= 8 ? 1 : spec(t.dtype).bits <= 16 ? 2 : 4;
}

std::int64_t raised(std::int64_t extent, std::int64_t multiple, std::int64_t limit, const char* what) {
  const std::int64_t raised = to_multiple(extent, multiple, limit);
  if (raised >= extent) return raised;
  throw CallFailed{false, "not probed: it takes at most " + std::to_string(limit) + " " + what +
                              ", and the inputs have " + std::to_string(extent)};
}

Case case_of(const CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
             const std::function<void(Case&)>& edit) {
  Case c;
  c.variant = variant;
  c.rows = rows, c.cols = cols;
  if (const OperationInfo* limits = runner.operation(variant.operation)) {
    c.rows = raised(rows, limits->rows_multiple, limits->max_rows, "rows");
    c.cols = raised(cols, limits->cols_multiple, limits->max_cols, "columns");
  }
  if (edit) edit(c);
  return c;
}

}  // namespace

Posing::Posing(CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
               const std::function<void(Case&)>& edit)
    : runner_(runner), problem_(make_problem(case_of(runner, variant, rows, cols, edit))), call_(problem_->call()) {}

void Posing::set(std::size_t input, Format type, const std::vector<std::uint32_t>& words, std::int64_t rows,
                 std::int64_t cols, std::uint32_t fill) {
  CallTensor& t = call_.inputs.at(input);
  const std::size_t width = width_of(t);
  const std::int64_t all_cols = t.shape.back();
  if (t.shape.size() != 2 || t.shape[0] < rows || all_cols < cols || t.bytes % width != 0 ||
      static_cast<std::int64_t>(words.size()) != rows * cols || (width > 1 && spec(type).bits > 8 && t.dtype != type)) {
    throw Error(ErrorKind::internal, "an input that does not fit its case");
  }
  std::vector<std::byte> bytes(t.bytes);
  for (std::int64_t i = 0; i < t.shape[0] * all_cols; ++i) {
    const std::int64_t row = i / all_cols;
    const std::int64_t col = i % all_cols;
    const bool inside = row < rows && col < cols;
    const std::uint32_t word = inside ? words[static_cast<std::size_t>(row * cols + col)] : fill;
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, &word, width);
  }
  t.data = call_.own(std::move(bytes));
}

void Posing::run() {
  CallVerdict ran = judged(runner_.run(call_), problem_->c);
  if (ran.finding) throw CallFailed{ran.finding->kind == FindingKind::fault, ran.finding->summary};
  if (!ran.outcome) throw CallFailed{false, "the candidate does not offer this call"};
  outputs_ = std::move(ran.outcome->outputs);
}

std::vector<std::uint32_t> Posing::words(std::size_t output, std::int64_t rows, std::int64_t cols) const {
  const CallTensor& t = call_.outputs.at(output);
  const std::size_t width = width_of(t);
  const std::int64_t all_cols = t.shape.back();
  const std::vector<std::byte>& bytes = outputs_.at(output);
  if (t.shape.size() != 2 || t.shape[0] < rows || all_cols < cols ||
      bytes.size() < static_cast<std::size_t>(t.shape[0] * all_cols) * width) {
    throw Error(ErrorKind::internal, "an output that does not fit its case");
  }
  std::vector<std::uint32_t> words;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + static_cast<std::size_t>(row * all_cols + col) * width, width);
      words.push_back(word);
    }
  }
  return words;
}

}  // namespace mxcheck
