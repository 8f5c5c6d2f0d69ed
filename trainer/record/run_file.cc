#include "trainer/record/run_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "trainer/config/config.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {
namespace {

// The columns of a run's file, which its writer and its reader go through.

using Words = std::vector<std::uint32_t>;
using Counts = std::vector<std::int64_t>;

// A column and the member of an entry that goes into it; the names are those of docs/parity.md.
template <class Entry, class T>
struct Column {
  const char* name;
  T Entry::*member;
};
constexpr std::array<Column<RecordedStep, std::uint32_t>, 4> kStepFloats{
    {{"loss", &RecordedStep::loss},
     {"balance_loss", &RecordedStep::balance_loss},
     {"gradient_norm", &RecordedStep::gradient_norm},
     {"rate", &RecordedStep::rate}}};
constexpr std::array<Column<RecordedEvaluation, std::uint32_t>, 2> kEvaluationFloats{
    {{"evaluation_loss_bf16", &RecordedEvaluation::loss_bf16}, {"evaluation_loss_own", &RecordedEvaluation::loss_own}}};
constexpr std::array<Column<OperandFacts, std::int64_t>, 4> kOperandCounts{
    {{"operand_elements", &OperandFacts::elements},
     {"operand_saturated", &OperandFacts::saturated},
     {"operand_flushed", &OperandFacts::flushed},
     {"operand_scales", &OperandFacts::scales}}};
constexpr std::array<Column<OperandFacts, std::int32_t>, 2> kOperandExponents{
    {{"operand_least_exponent", &OperandFacts::least_exponent},
     {"operand_largest_exponent", &OperandFacts::largest_exponent}}};

constexpr int kCompression = 6;  // zlib's default

template <class T, class Entries, class Get>
std::vector<T> gather(const Entries& entries, Get get) {
  std::vector<T> values;
  values.reserve(entries.size());
  for (const auto& entry : entries) values.push_back(get(entry));
  return values;
}

// 64-bit digests as pairs of words, the low one first: in memory, and for numpy, the same bytes as uint64.
Words run_file_words_of(const std::vector<std::uint64_t>& digests) {
  Words words(2 * digests.size());
  if (!words.empty()) std::memcpy(words.data(), digests.data(), words.size() * sizeof(words[0]));
  return words;
}

// The shortest decimal that is this double.
std::string decimal(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::vector<LayerObservation> layers_of(const std::vector<RecordedObservation>& observations) {
  std::vector<LayerObservation> all;
  for (const RecordedObservation& o : observations) all.insert(all.end(), o.layers.begin(), o.layers.end());
  return all;
}

class Writer {
 public:
  Writer(const std::string& path, const RunRecord& run) : to_(path, kRunKind), run_(run) {}

  SealedWriter& written() {
    attributes();
    steps();
    evaluations();
    observations();
    witnesses();
    return to_;
  }

 private:
  void attributes() {
    to_.attribute("configuration", to_json(run_.config));
    to_.attribute("corpus", run_.corpus);
    to_.attribute("training_sha256", run_.training_sha256);
    to_.attribute("training_bytes", std::to_string(run_.training_bytes));
    to_.attribute("validation_sha256", run_.validation_sha256);
    to_.attribute("validation_bytes", std::to_string(run_.validation_bytes));
    to_.attribute("validation_sequences", std::to_string(run_.plan.validation_sequences));
    to_.attribute("evaluate_every", std::to_string(run_.plan.evaluate_every));
    to_.attribute("observe_every", std::to_string(run_.plan.observe_every));
    to_.attribute("checkpoint_every", std::to_string(run_.plan.checkpoint_every));
    to_.attribute("kept_checkpoints",
                  join(run_.plan.kept, " ", [](std::int64_t step) { return std::to_string(step); }));
    to_.attribute("mxcheck", run_.mxcheck);
    to_.attribute("engine", run_.engine);
    to_.attribute("device", run_.device);
    to_.attribute("started", run_.started);
    to_.attribute("seconds", decimal(run_.seconds));
    to_.attribute("sittings", std::to_string(run_.sittings));
    to_.attribute("end", std::string(to_text(run_.end)));
    if (!run_.branch) return;
    to_.attribute("trunk_sha256", run_.branch->trunk);
    to_.attribute("trunk_file", run_.branch->file);
    to_.attribute("branch_step", std::to_string(run_.branch->step));
    to_.attribute("branch_weights_digest", fmt::format("{:016x}", run_.branch->weights));
  }

  template <class T>
  void list(const char* name, const char* format, const std::vector<T>& values) {
    to_.list<T>(name, format, values);
  }
  template <class T>
  void table(const char* name, const char* format, std::size_t rows, std::size_t cols, const std::vector<T>& values) {
    to_.table<T>(name, format, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), values);
  }
  template <class Entries>
  void step_numbers(const char* name, const Entries& entries) {
    list(name, "int64", gather<std::int64_t>(entries, [](const auto& e) { return e.step; }));
  }

  void steps() {
    for (const auto& column : kStepFloats) {
      list(column.name, "float32", gather<std::uint32_t>(run_.steps, [&](const auto& s) { return s.*column.member; }));
    }
    const auto weights = gather<std::uint64_t>(run_.steps, [](const RecordedStep& s) { return s.weights; });
    table("weights_digest", "uint32", weights.size(), 2, run_file_words_of(weights));
    list("skipped", "int64", gather<std::int64_t>(run_.steps, [](const RecordedStep& s) { return s.skipped; }));
  }

  void evaluations() {
    step_numbers("evaluation_step", run_.evaluations);
    for (const auto& column : kEvaluationFloats) {
      list(column.name, "float32",
           gather<std::uint32_t>(run_.evaluations, [&](const auto& e) { return e.*column.member; }));
    }
    Counts equal;
    for (const RecordedEvaluation& e : run_.evaluations) {
      equal.insert(equal.end(), e.equal_routes.begin(), e.equal_routes.end());
    }
    table("evaluation_equal_routes", "int64", run_.evaluations.size(), layers(), equal);
    list("evaluation_routes", "int64",
         gather<std::int64_t>(run_.evaluations, [](const RecordedEvaluation& e) { return e.routes; }));
  }

  void observations() {
    step_numbers("observation_step", run_.observations);
    const std::vector<LayerObservation> all = layers_of(run_.observations);
    const std::vector<OperandFacts> first = all.empty() ? std::vector<OperandFacts>() : all[0].operands;
    std::string names;
    for (const OperandFacts& facts : first) names += facts.name + "\n";
    list("operand_names", "uint8", std::vector<std::uint8_t>(names.begin(), names.end()));
    std::vector<OperandFacts> facts;
    Counts loads;
    for (const LayerObservation& layer : all) {
      facts.insert(facts.end(), layer.operands.begin(), layer.operands.end());
      if (layer.operands.empty()) facts.resize(facts.size() + first.size());  // in BF16: a row of zeros
      loads.insert(loads.end(), layer.expert_loads.begin(), layer.expert_loads.end());
    }
    for (const auto& column : kOperandCounts) {
      table(column.name, "int64", all.size(), first.size(),
            gather<std::int64_t>(facts, [&](const auto& f) { return f.*column.member; }));
    }
    for (const auto& column : kOperandExponents) {
      table(column.name, "int32", all.size(), first.size(),
            gather<std::int32_t>(facts, [&](const auto& f) { return f.*column.member; }));
    }
    table("expert_loads", "int64", all.size(), static_cast<std::size_t>(run_.config.model.experts), loads);
    const auto outputs = gather<std::uint64_t>(all, [](const LayerObservation& l) { return l.output_digest; });
    table("observation_output_digest", "uint32", run_.observations.size(), 2 * layers(), run_file_words_of(outputs));
  }

  void witnesses() {
    step_numbers("witness_step", run_.witnesses);
    std::vector<std::uint64_t> parameters;
    std::vector<std::uint64_t> outputs;
    for (const RecordedWitness& w : run_.witnesses) {
      parameters.insert(parameters.end(), w.parameters.begin(), w.parameters.end());
      outputs.insert(outputs.end(), w.layers.begin(), w.layers.end());
    }
    const auto tensors = static_cast<std::size_t>(parameter_tensors(run_.config.model));
    table("witness_parameter_digest", "uint32", run_.witnesses.size(), 2 * tensors, run_file_words_of(parameters));
    table("witness_output_digest", "uint32", run_.witnesses.size(), 2 * layers(), run_file_words_of(outputs));
  }

  [[nodiscard]] std::size_t layers() const { return static_cast<std::size_t>(run_.config.model.layers); }

  SealedWriter to_;
  const RunRecord& run_;
};

SealedWriter run_file_written(Writer writer) { return std::move(writer.written()); }

void check(const std::string& path, const RunRecord& run) {
  if (const std::string wrong = objection(run); !wrong.empty()) {
    throw Error(ErrorKind::usage, path + ": a record that does not agree with itself: " + wrong);
  }
}

}  // namespace

void write_run(const std::filesystem::path& path, const RunRecord& run) {
  check(path.string(), run);
  run_file_written({path.string(), run}).commit(kCompression);
}

std::string sha256_of(const RunRecord& run) { return content_sha256(contents_of(run)); }

UnverifiedGolden contents_of(const RunRecord& run) {
  check("a run", run);
  return run_file_written({"a run", run}).contents();
}

namespace {

std::vector<std::uint64_t> digests_in(const Words& words) {
  std::vector<std::uint64_t> digests(words.size() / 2);
  if (!digests.empty()) std::memcpy(digests.data(), words.data(), words.size() * sizeof(words[0]));
  return digests;
}

// The rows of a table one after the other.
template <class T>
class Rows {
 public:
  Rows(std::vector<T> values, std::int64_t cols) : values_(std::move(values)), cols_(static_cast<std::size_t>(cols)) {}
  [[nodiscard]] std::vector<T> row(std::size_t i) const {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(i * cols_);
    return {begin, begin + static_cast<std::ptrdiff_t>(cols_)};
  }

 private:
  std::vector<T> values_;
  std::size_t cols_;
};

class Reader {
 public:
  explicit Reader(SealedReader from) : from_(std::move(from)), path_(from_.path()) {}

  RunRecord read() {
    attributes();
    if (const std::string wrong = objection_to_head(run_); !wrong.empty()) from_.refuse(wrong);
    steps();
    evaluations();
    observations();
    witnesses();
    if (const std::string wrong = objection(run_); !wrong.empty()) from_.refuse(wrong);
    return std::move(run_);
  }

 private:
  void attributes() {
    try {
      run_.config = config_from_json(from_.text("configuration"), path_ + ": configuration");
      run_.end = run_end_named(from_.text("end"));
    } catch (const Error& e) {
      const std::string what = e.what();
      if (what.starts_with(path_)) throw Error(ErrorKind::input, what);
      from_.refuse(what);
    }
    run_.corpus = from_.text("corpus");
    run_.training_sha256 = from_.text("training_sha256");
    run_.training_bytes = from_.integer("training_bytes");
    run_.validation_sha256 = from_.text("validation_sha256");
    run_.validation_bytes = from_.integer("validation_bytes");
    run_.plan.validation_sequences = from_.integer("validation_sequences");
    run_.plan.evaluate_every = from_.integer("evaluate_every");
    run_.plan.observe_every = from_.integer("observe_every");
    run_.plan.checkpoint_every = from_.integer("checkpoint_every");
    kept_checkpoints();
    run_.mxcheck = from_.text("mxcheck");
    run_.engine = from_.text("engine");
    run_.device = from_.text("device");
    run_.started = from_.text("started");
    run_.seconds = from_.number("seconds");
    run_.sittings = from_.integer("sittings");
    if (from_.has("branch_step")) run_.branch = branch();
  }

  [[nodiscard]] RunBranch branch() const {
    const std::string& digest = from_.text("branch_weights_digest");
    std::uint64_t weights = 0;
    const char* const end = digest.data() + digest.size();
    const auto [at, error] = std::from_chars(digest.data(), end, weights, 16);
    if (digest.size() != 16 || at != end || error != std::errc())
      from_.refuse("branch_weights_digest is '" + digest + "', no 16 hexadecimal digits");
    return {from_.text("trunk_sha256"), from_.text("trunk_file"), from_.integer("branch_step"), weights};
  }

  // Steps with spaces between them.
  void kept_checkpoints() {
    const std::string& text = from_.text("kept_checkpoints");
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      const auto step = parse_number<std::int64_t>(std::string_view(text).substr(at, end - at));
      if (!step) from_.refuse("kept_checkpoints is '" + text + "'; steps with spaces between them are needed");
      run_.plan.kept.push_back(*step);
      at = end + 1;
    }
  }

  // A list that must have as many entries as another.
  template <class T>
  std::vector<T> list(const char* name, const char* format, std::size_t entries) const {
    std::vector<T> values = from_.list<T>(name, format);
    if (values.size() != entries) {
      from_.refuse(std::string(name) + " has " + std::to_string(values.size()) + " entries, but " +
                   std::to_string(entries) + " by the rest of the file");
    }
    return values;
  }
  template <class T>
  Rows<T> table(const char* name, const char* format, std::size_t rows, std::int64_t cols) const {
    return {from_.table<T>(name, format, static_cast<std::int64_t>(rows), cols), cols};
  }
  template <class Entry, class T, std::size_t N>
  void fill(std::vector<Entry>& entries, const std::array<Column<Entry, T>, N>& columns, const char* format) const {
    for (const auto& column : columns) {
      const std::vector<T> values = list<T>(column.name, format, entries.size());
      for (std::size_t i = 0; i < entries.size(); ++i) entries[i].*column.member = values[i];
    }
  }

  void steps() {
    const Counts skipped = from_.list<std::int64_t>("skipped", "int64");
    run_.steps.resize(skipped.size());
    fill(run_.steps, kStepFloats, "float32");
    const auto weights = digests_in(from_.table<std::uint32_t>("weights_digest", "uint32", std::ssize(skipped), 2));
    for (std::size_t i = 0; i < skipped.size(); ++i) {
      run_.steps[i].weights = weights[i];
      run_.steps[i].skipped = skipped[i];
    }
  }

  void evaluations() {
    const Counts step = from_.list<std::int64_t>("evaluation_step", "int64");
    run_.evaluations.resize(step.size());
    fill(run_.evaluations, kEvaluationFloats, "float32");
    const auto equal = table<std::int64_t>("evaluation_equal_routes", "int64", step.size(), layers());
    const Counts routes = list<std::int64_t>("evaluation_routes", "int64", step.size());
    for (std::size_t i = 0; i < step.size(); ++i) {
      run_.evaluations[i].step = step[i];
      run_.evaluations[i].equal_routes = equal.row(i);
      run_.evaluations[i].routes = routes[i];
    }
  }

  void observations() {
    const Counts step = from_.list<std::int64_t>("observation_step", "int64");
    const std::vector<std::uint8_t> text = from_.list<std::uint8_t>("operand_names", "uint8");
    const std::string joined(text.begin(), text.end());
    const std::vector<std::string_view> names = split(joined, '\n');
    std::uint64_t rows = 0;
    if (!checked_multiply(step.size(), static_cast<std::uint64_t>(layers()), rows)) from_.refuse("too many layers");
    const std::vector<OperandFacts> facts = operands(rows, names);
    const auto loads = table<std::int64_t>("expert_loads", "int64", rows, run_.config.model.experts);
    const auto outputs =
        digests_in(from_.table<std::uint32_t>("observation_output_digest", "uint32", std::ssize(step), 2 * layers()));
    for (std::size_t i = 0, row = 0; i < step.size(); ++i) {
      run_.observations.push_back({step[i], {}});
      for (std::int64_t l = 0; l < layers(); ++l, ++row) {
        const auto begin = facts.begin() + static_cast<std::ptrdiff_t>(row * names.size());
        std::vector<OperandFacts> of_layer{begin, begin + static_cast<std::ptrdiff_t>(names.size())};
        if (stays_in_bf16(run_.config, l)) drop_zeros(of_layer);
        run_.observations[i].layers.push_back({loads.row(row), std::move(of_layer), outputs[row]});
      }
    }
  }

  // Leaves out the rows of zeros that a layer without quantized operands has.
  void drop_zeros(std::vector<OperandFacts>& facts) const {
    for (const OperandFacts& f : facts) {
      OperandFacts zero;
      zero.name = f.name;
      if (f != zero) from_.refuse("operand '" + one_line(f.name) + "' of a layer that stays in BF16 has counts");
    }
    facts.clear();
  }

  // The facts of operands, of all layers of all observations: rows of names.size().
  [[nodiscard]] std::vector<OperandFacts> operands(std::uint64_t rows,
                                                   const std::vector<std::string_view>& names) const {
    const auto cols = static_cast<std::int64_t>(names.size());
    std::vector<OperandFacts> facts;
    const auto fill_columns = [&]<class T, std::size_t N>(const std::array<Column<OperandFacts, T>, N>& columns,
                                                          const char* format) {
      for (const auto& column : columns) {
        const std::vector<T> values = from_.table<T>(column.name, format, static_cast<std::int64_t>(rows), cols);
        facts.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) facts[i].*column.member = values[i];
      }
    };
    fill_columns(kOperandCounts, "int64");
    fill_columns(kOperandExponents, "int32");
    for (std::size_t i = 0; i < facts.size(); ++i) facts[i].name = names[i % names.size()];
    return facts;
  }

  void witnesses() {
    const Counts step = from_.list<std::int64_t>("witness_step", "int64");
    const std::int64_t tensors = parameter_tensors(run_.config.model);
    const auto parameters = table<std::uint32_t>("witness_parameter_digest", "uint32", step.size(), 2 * tensors);
    const auto outputs = table<std::uint32_t>("witness_output_digest", "uint32", step.size(), 2 * layers());
    for (std::size_t i = 0; i < step.size(); ++i) {
      run_.witnesses.push_back({step[i], digests_in(parameters.row(i)), digests_in(outputs.row(i))});
    }
  }

  [[nodiscard]] std::int64_t layers() const { return run_.config.model.layers; }

  SealedReader from_;
  std::string path_;
  RunRecord run_;
};

}  // namespace

RunRecord read_run(const std::filesystem::path& path) { return run_in(SealedReader(path.string(), kRunKind)); }

RunRecord run_in(SealedReader file) { return Reader(std::move(file)).read(); }

namespace {

std::string of_step(const char* what, std::int64_t step) {
  return std::string(what) + " of step " + std::to_string(step) + ": ";
}

// The objection to a list that must have one entry a tensor, a layer or an expert; empty where it has.
template <class List>
std::string run_file_size_objection(const char* name, const List& list, std::int64_t wanted) {
  if (std::ssize(list) == wanted) return "";
  return std::string(name) + " has " + std::to_string(list.size()) + " entries; the configuration calls for " +
         std::to_string(wanted);
}

std::string run_file_step_objection(const char* what, std::int64_t step, const RunRecord& run) {
  if (step >= run.first_step() && step < run.steps_done()) return "";
  return of_step(what, step) + "there are the steps " + std::to_string(run.first_step()) + " to " +
         std::to_string(run.steps_done() - 1);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

constexpr std::size_t kMostText = 64 << 10;  // bytes of an attribute of the run's file

bool is_attribute(const std::string& text) { return text.size() <= kMostText && text.find('\0') == std::string::npos; }

std::string objection(const OperandFacts& facts) {
  if (facts.elements < 0 || facts.scales < 0 || facts.saturated < 0 || facts.flushed < 0 ||
      facts.saturated > facts.elements || facts.flushed > facts.elements - facts.saturated) {
    return "operand '" + one_line(facts.name) + "' has counts that cannot be";
  }
  if (facts.name.empty() || facts.name.find_first_of(std::string("\n\0", 2)) != std::string::npos) {
    return "an operand's name is empty or no single line";
  }
  return "";
}

bool same_operands(const std::vector<OperandFacts>& a, const std::vector<OperandFacts>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const OperandFacts& x, const OperandFacts& y) { return x.name == y.name; });
}

std::string layer_objection(const RunRecord& run, const LayerObservation& layer, const LayerObservation& first,
                            bool in_bf16) {
  if (std::string wrong = run_file_size_objection("expert loads", layer.expert_loads, run.config.model.experts);
      !wrong.empty()) {
    return wrong;
  }
  if (std::any_of(layer.expert_loads.begin(), layer.expert_loads.end(), [](std::int64_t n) { return n < 0; })) {
    return "an expert's load is negative";
  }
  if (in_bf16 && !layer.operands.empty()) return "a layer that stays in BF16 has quantized operands";
  if (!in_bf16 && !same_operands(layer.operands, first.operands))
    return "its operands are not those of the first observed layer";
  for (const OperandFacts& facts : layer.operands) {
    if (std::string wrong = objection(facts); !wrong.empty()) return wrong;
  }
  return "";
}

// Each entry, and that their steps rise.
template <class Entry>
std::string list_objection(const RunRecord& run, const char* what, const std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::string wrong = objection(run, entries[i]); !wrong.empty()) return wrong;
    if (i > 0 && entries[i - 1].step >= entries[i].step) {
      return of_step(what, entries[i].step) + "comes after that of step " + std::to_string(entries[i - 1].step);
    }
  }
  return "";
}

}  // namespace

std::string objection(const RunRecord& run, const RecordedStep& step) {
  static_cast<void>(run);
  return step.skipped >= 0 ? "" : "a step has " + std::to_string(step.skipped) + " skipped elements";
}

std::string objection(const RunRecord& run, const RecordedEvaluation& e) {
  const std::string place = of_step("evaluation", e.step);
  if (e.step < run.first_step() || e.step > run.steps_done()) {
    return place + "there are " + std::to_string(run.steps.size()) + " steps" +
           (run.branch ? " from " + std::to_string(run.branch->step) + " on" : "");
  }
  if (std::string wrong = run_file_size_objection("equal routes", e.equal_routes, run.config.model.layers);
      !wrong.empty()) {
    return place + wrong;
  }
  const bool counts = std::all_of(e.equal_routes.begin(), e.equal_routes.end(),
                                  [&](std::int64_t equal) { return equal >= 0 && equal <= e.routes; });
  return e.routes >= 0 && counts ? "" : place + "equal routes are not between 0 and all routes";
}

std::string objection(const RunRecord& run, const RecordedObservation& o) {
  if (std::string wrong = run_file_step_objection("observation", o.step, run); !wrong.empty()) return wrong;
  const std::string place = of_step("observation", o.step);
  if (std::string wrong = run_file_size_objection("layers", o.layers, run.config.model.layers); !wrong.empty()) {
    return place + wrong;
  }
  const LayerObservation& first = run.observations.empty() ? o.layers[0] : run.observations[0].layers[0];
  for (std::size_t l = 0; l < o.layers.size(); ++l) {
    const bool in_bf16 = stays_in_bf16(run.config, static_cast<std::int64_t>(l));
    if (std::string wrong = layer_objection(run, o.layers[l], first, in_bf16); !wrong.empty()) return place + wrong;
  }
  return "";
}

std::string objection(const RunRecord& run, const RecordedWitness& w) {
  if (std::string wrong = run_file_step_objection("witness", w.step, run); !wrong.empty()) return wrong;
  std::string wrong = run_file_size_objection("parameters", w.parameters, parameter_tensors(run.config.model));
  if (wrong.empty()) wrong = run_file_size_objection("layers", w.layers, run.config.model.layers);
  return wrong.empty() ? "" : of_step("witness", w.step) + wrong;
}

std::string objection_to_plan(const RunPlan& plan, const TrainingConfig& config) {
  for (const auto& [every, what] :
       {std::pair(plan.evaluate_every, "an evaluation"), std::pair(plan.observe_every, "an observation"),
        std::pair(plan.checkpoint_every, "a checkpoint")}) {
    if (every < 1) {
      return std::string("a run with ") + what + " every " + std::to_string(every) + " steps; 1 or more is needed";
    }
  }
  if (plan.validation_sequences < 1 || plan.validation_sequences > 1 << 20) {
    return "evaluations of " + std::to_string(plan.validation_sequences) + " sequences; 1 to 2^20 are needed";
  }
  if (plan.kept.size() > kMostKept) {
    return std::to_string(plan.kept.size()) + " checkpoints to keep; at most " + std::to_string(kMostKept);
  }
  std::int64_t before = -1;
  for (const std::int64_t step : plan.kept) {
    if (step <= before || step >= config.steps) {
      return "a checkpoint to keep before step " + std::to_string(step) + "; steps of the run, 0 to " +
             std::to_string(config.steps - 1) + ", each once and ascending, are needed";
    }
    before = step;
  }
  return memory_objection(config, plan.validation_sequences);
}

std::string objection_to_head(const RunRecord& run) {
  if (!is_sha256(run.training_sha256)) return "training_sha256 is no SHA-256: 64 lower-case hexadecimal digits";
  if (!is_sha256(run.validation_sha256)) return "validation_sha256 is no SHA-256: 64 lower-case hexadecimal digits";
  for (const std::string* text : {&run.corpus, &run.mxcheck, &run.engine, &run.device, &run.started}) {
    if (!is_attribute(*text)) return "a text that says what was run has over 64 KiB or holds a zero byte";
  }
  if (run.training_bytes < 0 || run.validation_bytes < 0) {
    return "a size of the data is negative";
  }
  if (std::string wrong = objection_to_plan(run.plan, run.config); !wrong.empty()) return wrong;
  if (run.branch) {
    const RunBranch& b = *run.branch;
    if (!is_sha256(b.trunk)) return "trunk_sha256 is no SHA-256: 64 lower-case hexadecimal digits";
    if (!is_attribute(b.file) || b.file.empty() || b.file.size() > NAME_MAX || b.file.find('/') != std::string::npos)
      return "trunk_file is no name of a file";
    if (b.step < 1 || b.step >= run.config.steps) {
      return "a branch after step " + std::to_string(b.step) + " of " + std::to_string(run.config.steps) +
             "; it begins after 1 step or more, and before the last";
    }
  }
  if (!(std::isfinite(run.seconds) && run.seconds >= 0)) return "seconds are no finite number of at least 0";
  return run.sittings >= 1 ? "" : "sittings are " + std::to_string(run.sittings) + "; at least 1";
}

std::string objection(const RunRecord& run) {
  if (std::string wrong = objection_to_head(run); !wrong.empty()) return wrong;
  const std::int64_t steps = run.steps_done();
  if (steps > run.config.steps || (run.end == RunEnd::finished && steps != run.config.steps)) {
    return std::to_string(steps) + " steps of a run of " + std::to_string(run.config.steps) + " that is " +
           std::string(to_text(run.end));
  }
  for (const RecordedStep& step : run.steps) {
    if (std::string wrong = objection(run, step); !wrong.empty()) return wrong;
  }
  std::string wrong = list_objection(run, "evaluation", run.evaluations);
  if (wrong.empty()) wrong = list_objection(run, "observation", run.observations);
  if (wrong.empty()) wrong = list_objection(run, "witness", run.witnesses);
  return wrong;
}

}  // namespace mxcheck
