#include "trainer/record/run_file.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "numerics/text.h"
#include "trainer/config/config.h"
#include "trainer/record/run_check.h"
#include "trainer/record/run_columns.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {
namespace {

using namespace run_columns;
constexpr int kCompression = 6;  // zlib's default

template <class T, class Entries, class Get>
std::vector<T> gather(const Entries& entries, Get get) {
  std::vector<T> values;
  values.reserve(entries.size());
  for (const auto& entry : entries) values.push_back(get(entry));
  return values;
}

// 64-bit digests as pairs of words, the low one first: in memory, and for numpy, the same bytes as uint64.
Words words_of(const std::vector<std::uint64_t>& digests) {
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
    table("weights_digest", "uint32", weights.size(), 2, words_of(weights));
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
    table("observation_output_digest", "uint32", run_.observations.size(), 2 * layers(), words_of(outputs));
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
    table("witness_parameter_digest", "uint32", run_.witnesses.size(), 2 * tensors, words_of(parameters));
    table("witness_output_digest", "uint32", run_.witnesses.size(), 2 * layers(), words_of(outputs));
  }

  [[nodiscard]] std::size_t layers() const { return static_cast<std::size_t>(run_.config.model.layers); }

  SealedWriter to_;
  const RunRecord& run_;
};

SealedWriter written(Writer writer) { return std::move(writer.written()); }

void check(const std::string& path, const RunRecord& run) {
  if (const std::string wrong = objection(run); !wrong.empty()) {
    throw Error(ErrorKind::usage, path + ": a record that does not agree with itself: " + wrong);
  }
}

}  // namespace

void write_run(const std::filesystem::path& path, const RunRecord& run) {
  check(path.string(), run);
  written({path.string(), run}).commit(kCompression);
}

UnverifiedGolden contents_of(const RunRecord& run) {
  check("a run", run);
  return written({"a run", run}).contents();
}

}  // namespace mxcheck
