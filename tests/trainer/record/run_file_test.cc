// Records of runs as files, and the check that a record passes before it is written and after it was read.

#include <chrono>

#include "goldens/format/unverified.h"
#include "goldens/format/writer.h"
#include "tests/testing.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/record/run_file.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {
namespace {

using namespace test;

class RunFile : public testing::Test {
 protected:
  void expect_kept(const RunRecord& run) const {
    write_run(path, run);
    EXPECT_EQ(read_run(path), run);
  }
  TemporaryDirectory dir;
  std::string path = dir / "run.h5";
};

TEST_F(RunFile, gives_the_record_again) { expect_kept(sample_run()); }

TEST_F(RunFile, keeps_bits_of_nan_infinity_and_zero) {
  RunRecord run = sample_run();
  run.end = RunEnd::diverged;
  run.steps.resize(3);
  run.evaluations.resize(1), run.observations.resize(1), run.witnesses.resize(1);
  run.steps[0].loss = 0x7FA00001, run.steps[0].gradient_norm = 0x7F800000;  // a signalling NaN, +Inf
  run.steps[1].loss = 0xFFC00000, run.steps[1].balance_loss = 0x80000000;   // -NaN, -0
  run.evaluations[0].loss_bf16 = 0xFFFFFFFF;
  expect_kept(run);
}

TEST_F(RunFile, keeps_runs_without_steps_entries_or_operands) {
  RunRecord run = sample_head();
  expect_kept(run);
  run.steps.push_back(sample_step(0));
  run.observations.push_back(sample_observation(run.config, 0, 0));  // bf16: nothing is quantized
  run.device = "";
  run.seconds = std::numeric_limits<double>::max();
  expect_kept(run);
}

TEST_F(RunFile, has_equal_bytes_for_equal_records_alone) {
  const RunRecord run = sample_run();
  write_run(path, run);
  write_run(dir / "again.h5", run);
  EXPECT_EQ(read_file(path), read_file(dir / "again.h5"));
  RunRecord other = run;
  other.steps[5].weights ^= 1;
  write_run(dir / "other.h5", other);
  EXPECT_NE(read_file(path), read_file(dir / "other.h5"));
}

// The size that docs/parity.md states: a full-size run of 10,000 steps whose numbers do not repeat.
TEST_F(RunFile, of_10000_steps_is_below_2_MiB) {
  RunRecord run = sample_head(10000);
  run.config.model = {4, 256, 4, 32, 128, 4, 256};
  std::uint64_t word = 1;
  const auto next = [&] { return word = word * 6364136223846793005U + 1442695040888963407U; };
  const auto bits = [&] { return static_cast<std::uint32_t>(next() >> 44) | 0x40000000U; };  // 20 random bits
  for (std::int64_t s = 0; s < 10000; ++s) run.steps.push_back({bits(), bits(), bits(), bits(), next(), 0});
  for (std::int64_t s = 0; s < 100; ++s) {
    run.evaluations.push_back(
        {100 * s, bits(), bits(), {4000, 4001, 4002, static_cast<std::int64_t>(word >> 50)}, 1 << 20});
    run.observations.push_back(sample_observation(run.config, 100 * s, 12));
    run.witnesses.push_back(sample_witness(run.config, 100 * s));
    for (std::uint64_t& digest : run.witnesses.back().parameters) digest = next();
    for (LayerObservation& layer : run.observations.back().layers) {
      for (std::int64_t& load : layer.expert_loads) load = static_cast<std::int64_t>(next() >> 54);
      for (OperandFacts& f : layer.operands) {
        f.elements = 1 << 22, f.scales = 1 << 17;
        f.saturated = static_cast<std::int64_t>(next() >> 50), f.flushed = static_cast<std::int64_t>(next() >> 44);
      }
    }
  }
  for (const std::int64_t s : {9901, 9902, 9998, 9999}) run.witnesses.push_back(sample_witness(run.config, s));
  run.end = RunEnd::finished;
  expect_kept(run);
  EXPECT_LT(read_file(path).size(), std::size_t{2} << 20);
  RecordProperty("bytes", static_cast<int>(read_file(path).size()));
}

// Wherever a byte is changed or the file ends: refused in a line, or the record itself (slack of the format).
TEST_F(RunFile, is_refused_or_equal_wherever_it_is_damaged) {
  const RunRecord run = sample_run();
  write_run(path, run);
  const std::string whole = read_file(path);
  int refused = 0;
  int equal = 0;
  const auto look = [&](const std::string& bytes) {
    write_file(path, bytes);
    try {
      EXPECT_EQ(read_run(path), run);
      ++equal;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with(path)) << e.what();
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      ++refused;
    }
  };
  constexpr std::size_t kPlaces = 60;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    std::string changed = whole;
    changed[i * whole.size() / kPlaces] ^= static_cast<char>(i % 2 == 0 ? 0xFF : 1);
    look(changed);
  }
  for (std::size_t i = 0; i < 20; ++i) look(whole.substr(0, i * whole.size() / 20));
  EXPECT_GT(refused, 30);
  EXPECT_EQ(refused + equal, 80);
  look(whole);
  EXPECT_EQ(refused + equal, 81);
}

// The content hash tells that a value was altered: HDF5 reads such a file without complaint.
TEST_F(RunFile, is_refused_where_a_value_was_altered) {
  write_run(path, sample_run());
  const UnverifiedGolden file = read_unverified(path);
  for (std::size_t i = 0; i < file.data.size(); ++i) {
    ASSERT_FALSE(file.data[i].empty()) << file.info.datasets[i].name;
    UnverifiedGolden altered = file;
    altered.data[i].back() ^= std::byte{1};
    EXPECT_NE(content_sha256(altered), content_sha256(file)) << file.info.datasets[i].name;
    if (i > 2) continue;  // through a file, too
    GoldenWriter writer(path, altered.info, {.compression = 6, .file_kind = altered.kind.c_str()});
    for (std::size_t d = 0; d < altered.data.size(); ++d) writer.append(d, altered.data[d]);
    writer.commit();
    expect_error(ErrorKind::input, "run.h5: was altered: its contents have SHA-256", [&] { read_run(path); });
  }
  for (std::size_t i = 0; i < file.info.attributes.size(); ++i) {
    UnverifiedGolden altered = file;
    altered.info.attributes[i].second += "0";
    const bool hash = file.info.attributes[i].first == "content_sha256";
    EXPECT_EQ(content_sha256(altered) == content_sha256(file), hash) << file.info.attributes[i].first;
  }
}

TEST_F(RunFile, of_another_kind_or_version_is_refused) {
  GoldenWriter(path, {{{"a", "b"}}, {}}).commit();
  expect_error(ErrorKind::input, "run.h5: is of kind 'golden', not 'parity'", [&] { read_run(path); });
  SealedWriter("" + path, kRunKind).commit(0);
  expect_error(ErrorKind::input, "run.h5: has no attribute 'configuration'", [&] { read_run(path); });
  GoldenWriter(path, {{{"file_version", "2"}}, {}}, {.file_kind = kRunKind}).commit();
  expect_error(ErrorKind::input, "run.h5: has file version '2'; this build reads version 1", [&] { read_run(path); });
  write_file(path, "no HDF5");
  expect_error(ErrorKind::input, "run.h5: not an HDF5 file", [&] { read_run(path); });
  expect_error(ErrorKind::input, "none.h5", [&] { read_run(dir / "none.h5"); });
}

// Sealed like a run's file, by what is no run: the hash is right, the contents are not.
class Forged {
 public:
  explicit Forged(const std::string& path) : path_(path), file_(read_unverified(path)) {}
  std::string& attribute(const std::string& key) {
    for (auto& [name, value] : file_.info.attributes) {
      if (name == key) return value;
    }
    throw Error(ErrorKind::internal, key);
  }
  std::size_t set(const std::string& name) const {
    for (std::size_t i = 0; i < file_.data.size(); ++i) {
      if (file_.info.datasets[i].name == name) return i;
    }
    throw Error(ErrorKind::internal, name);
  }
  void drop_last_row(const std::string& name) {
    const std::size_t i = set(name);
    DatasetInfo& info = file_.info.datasets[i];
    file_.data[i].resize(file_.data[i].size() / static_cast<std::size_t>(info.shape[0]) *
                         static_cast<std::size_t>(info.shape[0] - 1));
    --info.shape[0];
  }
  std::byte& first_byte(const std::string& name) { return file_.data[set(name)][0]; }
  void rename(const std::string& from, const std::string& to) { file_.info.datasets[set(from)].name = to; }
  void write() {
    attribute("content_sha256") = content_sha256(file_);
    GoldenWriter writer(path_, file_.info, {.file_kind = kRunKind});
    for (std::size_t d = 0; d < file_.data.size(); ++d) writer.append(d, file_.data[d]);
    writer.commit();
  }

 private:
  std::string path_;
  UnverifiedGolden file_;
};

TEST_F(RunFile, whose_parts_do_not_agree_is_refused) {
  const std::vector<std::pair<const char*, std::function<void(Forged&)>>> cases{
      {"loss has 11 entries, but 12 by the rest of the file", [](Forged& f) { f.drop_last_row("loss"); }},
      {"weights_digest is 11 x 2, but 12 x 2", [](Forged& f) { f.drop_last_row("weights_digest"); }},
      {"loss has 12 entries, but 11",
       [](Forged& f) {
         f.drop_last_row("skipped");
         f.drop_last_row("weights_digest");
       }},
      {"operand_flushed is 3 x 3, but 4 x 3", [](Forged& f) { f.drop_last_row("operand_flushed"); }},
      {"witness_output_digest is 3 x 4, but 4 x 4", [](Forged& f) { f.drop_last_row("witness_output_digest"); }},
      {"has no dataset 'rate'", [](Forged& f) { f.rename("rate", "rates"); }},
      {"evaluation of step 6: comes after that of step 9",
       [](Forged& f) { f.first_byte("evaluation_step") = std::byte{9}; }},
      {"witness of step 200: there are the steps 0 to 11",
       [](Forged& f) { f.first_byte("witness_step") = std::byte{200}; }},
      {"attribute 'sittings' is '2x', no decimal integer", [](Forged& f) { f.attribute("sittings") += "x"; }},
      {"sittings are 0; at least 1", [](Forged& f) { f.attribute("sittings") = "0"; }},
      {"seconds are no finite number", [](Forged& f) { f.attribute("seconds") = "nan"; }},
      {"training_sha256 is no SHA-256", [](Forged& f) { f.attribute("training_sha256") = "abc"; }},
      {"unknown end of a run 'done'; known are unfinished", [](Forged& f) { f.attribute("end") = "done"; }},
      {"run.h5: configuration", [](Forged& f) { f.attribute("configuration") = "{}"; }},
      {"run.h5: configuration", [](Forged& f) { f.attribute("configuration") += "}"; }},
  };
  for (const auto& [text, forge] : cases) {
    write_run(path, sample_run());
    Forged file(path);
    forge(file);
    file.write();
    expect_error(ErrorKind::input, text, [&] { read_run(path); });
  }
}

// Sizes that would be allocated, or gone through, before anything else showed that they cannot be.
TEST_F(RunFile, of_sizes_that_no_run_has_is_refused_at_once) {
  const auto size = [](const char* key, const char* value) {
    return [key = std::string(key), value = std::string(value)](Forged& f) {
      std::string& text = f.attribute("configuration");
      const std::size_t at = text.find("\"" + key + "\": ") + key.size() + 4;
      text.replace(at, text.find_first_of(",\n }", at) - at, value);
    };
  };
  std::string steps;
  for (int i = 0; i < 5000; ++i) steps += (i == 0 ? "" : " ") + std::to_string(i);
  const std::vector<std::pair<const char*, std::function<void(Forged&)>>> cases{
      {"run.h5: evaluations of 100000000 sequences; 1 to 2^20 are needed",
       [](Forged& f) { f.attribute("validation_sequences") = "100000000"; }},
      {"an observation every -3 steps", [](Forged& f) { f.attribute("observe_every") = "-3"; }},
      {"run.h5: a run of this configuration takes at least", size("width", "16777216")},
      {"at most 1024.0 GiB may be asked for", size("width", "16777216")},
      {"run.h5: a run of this configuration takes at least", size("length", "8388608")},  // its attention
      {"layers are 16777216; 1 to 2^16 are needed", size("layers", "16777216")},
      {"batch x length is above 2^24", size("batch", "16777216")},
      {"5000 checkpoints to keep; at most 4096", [&](Forged& f) { f.attribute("kept_checkpoints") = steps; }},
  };
  for (const auto& [text, forge] : cases) {
    write_run(path, sample_run());
    Forged file(path);
    forge(file);
    file.write();
    const auto begun = std::chrono::steady_clock::now();
    expect_error(ErrorKind::input, text, [&] { read_run(path); });
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2)) << text;
  }
}

TEST_F(RunFile, is_not_written_of_a_record_that_does_not_agree_with_itself) {
  const std::vector<std::pair<const char*, std::function<void(RunRecord&)>>> cases{
      {"11 steps of a run of 12 that is finished", [](RunRecord& r) { r.steps.pop_back(); }},
      {"13 steps of a run of 12 that is unfinished",
       [](RunRecord& r) { r.steps.push_back({}), r.end = RunEnd::unfinished; }},
      {"equal routes has 3 entries; the configuration calls for 2",
       [](RunRecord& r) { r.evaluations[1].equal_routes.push_back(0); }},
      {"equal routes are not between", [](RunRecord& r) { r.evaluations[1].equal_routes[0] = 33; }},
      {"evaluation of step 13: there are 12 steps", [](RunRecord& r) { r.evaluations[2].step = 13; }},
      {"observation of step 0: comes after that of step 0", [](RunRecord& r) { r.observations[1].step = 0; }},
      {"operands are not those of the first", [](RunRecord& r) { r.observations[1].layers[0].operands[0].name = "x"; }},
      {"a layer that stays in BF16 has quantized operands", [](RunRecord& r) { r.config.bf16_last = 1; }},
      {"expert loads has 0 entries", [](RunRecord& r) { r.observations[1].layers[0].expert_loads.clear(); }},
      {"layers has 1 entries", [](RunRecord& r) { r.observations[1].layers.pop_back(); }},
      {"operand 'up.0' has counts that cannot be",
       [](RunRecord& r) { r.observations[0].layers[0].operands[0].flushed = 2000; }},
      {"parameters has 18 entries", [](RunRecord& r) { r.witnesses[0].parameters.push_back(0); }},
      {"a size of the data is negative", [](RunRecord& r) { r.training_bytes = -1; }},
      {"-1 skipped elements", [](RunRecord& r) { r.steps[0].skipped = -1; }},
  };
  for (const auto& [text, spoil] : cases) {
    RunRecord run = sample_run();
    spoil(run);
    expect_error(ErrorKind::usage, text, [&] { write_run(path, run); });
  }
  EXPECT_TRUE(dir.names().empty());
}

// The check of a record. RunFile above has what is wrong with entries, one by one.

TEST(RunCheck, finds_nothing_wrong_with_a_run_that_is_right) {
  EXPECT_EQ(objection(sample_run()), "");
  EXPECT_EQ(objection(sample_head()), "");
  EXPECT_EQ(objection_to_head(sample_head()), "");
}

TEST(RunCheck, counts_tensors_as_the_model_lists_them) {
  for (const std::int64_t layers : {1, 2, 5}) {
    ModelShape model = sample_config().model;
    model.layers = layers;
    EXPECT_EQ(parameter_tensors(model), std::ssize(parameters_of(model)));
  }
}

TEST(RunCheck, refuses_plans_and_times_that_cannot_be) {
  const auto wrong = [](auto change) {
    RunRecord run = sample_run();
    change(run);
    return objection(run);
  };
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.observe_every = 0; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.validation_sequences = 0; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.kept = {3, 3}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.kept = {12}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.kept = {-1}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.seconds = std::numeric_limits<double>::quiet_NaN(); }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.seconds = -1; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.plan.validation_sequences = (1 << 20) + 1; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.branch = RunBranch{std::string(64, 'a'), std::string(256, 'a'), 3, 0}; }), "");
  EXPECT_NE(wrong([](RunRecord& r) { r.validation_sha256[5] = 'A'; }), "");
  EXPECT_EQ(wrong([](RunRecord& r) { r.plan.kept = {}; }), "");
}

// An attribute of the run's file holds neither.
TEST(RunCheck, refuses_texts_that_a_file_cannot_hold) {
  for (std::string RunRecord::*text :
       {&RunRecord::corpus, &RunRecord::mxcheck, &RunRecord::engine, &RunRecord::device, &RunRecord::started}) {
    RunRecord run = sample_head();
    run.*text = std::string(64 << 10, 'a');
    EXPECT_EQ(objection_to_head(run), "");
    run.*text += 'a';
    EXPECT_NE(objection_to_head(run), "");
    run.*text = std::string("a\0b", 3);
    EXPECT_NE(objection_to_head(run), "");
  }
}

TEST(RunCheck, quotes_names_on_one_line) {
  RunRecord run = sample_run();
  for (LayerObservation& layer : run.observations[0].layers) layer.operands[0].name = "a\nb";
  run.observations.resize(1);
  run.observations[0].layers[0].operands[0].saturated = -1;
  EXPECT_EQ(objection(run), R"(observation of step 0: operand 'a\x0Ab' has counts that cannot be)");
}

}  // namespace
}  // namespace mxcheck
