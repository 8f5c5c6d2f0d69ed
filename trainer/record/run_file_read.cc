#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "trainer/config/config.h"
#include "trainer/record/run_check.h"
#include "trainer/record/run_columns.h"
#include "trainer/record/run_file.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {
namespace {

using namespace run_columns;

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
        run_.observations[i].layers.push_back(
            {loads.row(row), {begin, begin + static_cast<std::ptrdiff_t>(names.size())}, outputs[row]});
      }
    }
  }

  // Of all layers of all observations, rows of names.size().
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

}  // namespace mxcheck
