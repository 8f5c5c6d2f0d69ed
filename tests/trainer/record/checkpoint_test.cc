// Checkpoints, and the sealed file that they and the records of runs are.

#include "trainer/record/checkpoint.h"
#include "goldens/format/writer.h"
#include "reference/training/observe.h"
#include "tests/testing.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/config/config.h"
#include "trainer/record/run_file.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {
namespace {

using namespace test;

Checkpoint sample_checkpoint(const TrainingConfig& config) {
  Checkpoint c{config, std::string(64, 'a'), {}};
  c.state.step = 5;
  c.state.updates = 4;
  float next = 1;
  for (auto* tensors : {&c.state.weights, &c.state.first_moments, &c.state.second_moments}) {
    for (const ParameterSpec& p : parameters_of(config.model)) {
      tensors->emplace_back();
      for (std::int64_t i = 0; i < p.size(); ++i) {
        const auto word = std::bit_cast<std::uint32_t>(next = next * 1.0001F);
        const bool bf16 = config.optimizer.moments == Format::bf16 && tensors != &c.state.weights;
        tensors->back().push_back(std::bit_cast<float>(bf16 ? word & 0xFFFF0000U : word));
      }
    }
  }
  return c;
}

bool same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  const auto equal = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  });
}

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.config, b.config);
  EXPECT_EQ(a.training_sha256, b.training_sha256);
  EXPECT_EQ(a.state.step, b.state.step);
  EXPECT_EQ(a.state.updates, b.state.updates);
  EXPECT_TRUE(same(a.state.weights, b.state.weights));
  EXPECT_TRUE(same(a.state.first_moments, b.state.first_moments));
  EXPECT_TRUE(same(a.state.second_moments, b.state.second_moments));
}

class CheckpointFile : public testing::Test {
 protected:
  TemporaryDirectory dir;
  std::string path = dir / "x.checkpoint";
  TrainingConfig config = sample_config();
};

TEST_F(CheckpointFile, gives_the_state_again_to_the_bit) {
  Checkpoint c = sample_checkpoint(config);
  c.state.weights[1][0] = std::bit_cast<float>(0x7FA00001U);  // a signalling NaN
  c.state.weights[1][1] = -0.0F;
  write_checkpoint(path, c);
  expect_equal(read_checkpoint(path), c);
}

TEST_F(CheckpointFile, keeps_moments_of_bf16_in_two_bytes) {
  write_checkpoint(path, sample_checkpoint(config));
  const std::size_t wide = read_file(path).size();
  config.optimizer.moments = Format::bf16;
  Checkpoint c = sample_checkpoint(config);
  write_checkpoint(path, c);
  expect_equal(read_checkpoint(path), c);
  EXPECT_EQ(wide - read_file(path).size(), static_cast<std::size_t>(4 * parameter_count(config.model)));
  c.state.second_moments[2][1] = 1.00001F;
  expect_error(ErrorKind::usage, "second_moments holds what is no BF16 number", [&] { write_checkpoint(path, c); });
}

TEST_F(CheckpointFile, has_equal_bytes_for_equal_states) {
  write_checkpoint(path, sample_checkpoint(config));
  write_checkpoint(dir / "again", sample_checkpoint(config));
  EXPECT_EQ(read_file(path), read_file(dir / "again"));
}

TEST_F(CheckpointFile, of_the_preset_tiny_is_below_2_MiB) {
  config.model = {2, 64, 2, 8, 32, 2, 64};
  write_checkpoint(path, sample_checkpoint(config));
  EXPECT_LT(read_file(path).size(), std::size_t{2} << 20);
  RecordProperty("bytes", static_cast<int>(read_file(path).size()));
}

TEST_F(CheckpointFile, is_refused_wherever_its_data_is_damaged_or_cut) {
  const Checkpoint c = sample_checkpoint(config);
  write_checkpoint(path, c);
  const std::string whole = read_file(path);
  for (std::size_t i = 0; i < 40; ++i) {
    std::string changed = whole;
    changed[i * whole.size() / 40] ^= 0x10;
    write_file(path, i % 4 == 3 ? whole.substr(0, i * whole.size() / 40) : changed);
    try {
      expect_equal(read_checkpoint(path), c);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
    }
  }
  write_run(path, sample_run());
  expect_error(ErrorKind::input, "is of kind 'parity', not 'parity checkpoint'", [&] { read_checkpoint(path); });
}

TEST_F(CheckpointFile, of_a_state_that_is_not_its_configurations_is_refused) {
  const std::vector<std::pair<const char*, std::function<void(Checkpoint&)>>> cases{
      {"weights: 16 tensors of 17", [](Checkpoint& c) { c.state.weights.pop_back(); }},
      {"first moments: layers.0.attention_norm has 9 elements of 8",
       [](Checkpoint& c) { c.state.first_moments[1].push_back(0); }},
      {"step 13 and 4 updates of a run of 12 steps", [](Checkpoint& c) { c.state.step = 13; }},
      {"step 5 and 6 updates", [](Checkpoint& c) { c.state.updates = 6; }},
  };
  for (const auto& [text, spoil] : cases) {
    Checkpoint c = sample_checkpoint(config);
    spoil(c);
    expect_error(ErrorKind::usage, text, [&] { write_checkpoint(path, c); });
  }
  write_checkpoint(path, sample_checkpoint(config));
  const SealedReader from(path, kCheckpointKind);
  const auto forge = [&](const TrainingConfig& other) {
    SealedWriter forged(path, kCheckpointKind);
    forged.attribute("configuration", to_json(other));
    for (const char* key : {"training_sha256", "step", "updates"}) forged.attribute(key, from.text(key));
    for (const char* name : {"weights", "first_moments", "second_moments"})
      forged.list<std::uint32_t>(name, "float32", from.list<std::uint32_t>(name, "float32"));
    forged.commit(0);
  };
  TrainingConfig other = config;
  other.model.layers = 1 << 16;
  forge(other);
  expect_error(ErrorKind::input, "elements, but the configuration", [&] { read_checkpoint(path); });
  other.model.layers = 1 << 24;  // more than can be listed
  forge(other);
  expect_error(ErrorKind::input, "layers are 16777216; 1 to 2^16", [&] { read_checkpoint(path); });
  other = config;
  other.model.width = 1 << 24;
  forge(other);
  expect_error(ErrorKind::input, "x.checkpoint: a run of this configuration takes at least",
               [&] { read_checkpoint(path); });
}

TEST_F(CheckpointFile, of_another_run_is_refused_naming_the_first_field_that_differs) {
  RunRecord run = sample_run();
  const Checkpoint c = sample_checkpoint(run.config);
  std::vector<std::uint64_t> digests;
  for (const auto& tensor : c.state.weights) digests.push_back(tensor_digest(tensor));
  run.steps[4].weights = digest_of_digests(digests);
  EXPECT_NO_THROW(check_belongs(c, run, path));
  const std::vector<std::pair<const char*, std::function<void(Checkpoint&)>>> cases{
      {"seed is 8, but 7 in the run", [](Checkpoint& o) { o.config.seed = 8; }},
      {"model.width is 16, but 8 in the run", [](Checkpoint& o) { o.config.model.width = 16, o.config.seed = 8; }},
      {"perturb is 1, but 0 in the run", [](Checkpoint& o) { o.config.perturb = 1; }},
      {"recipe", [](Checkpoint& o) { o.config.recipe = layer_recipe_named("bf16"); }},
      {"training_sha256 is cccc", [](Checkpoint& o) { o.training_sha256 = std::string(64, 'c'); }},
  };
  for (const auto& [text, spoil] : cases) {
    Checkpoint other = c;
    spoil(other);
    expect_error(ErrorKind::input, std::string("x.checkpoint: a checkpoint of another run: ") + text,
                 [&] { check_belongs(other, run, path); });
  }
  Checkpoint other = c;
  other.state.weights[16][3] += 1;
  expect_error(ErrorKind::input, "x.checkpoint: its weights are not those that the run recorded after step 4",
               [&] { check_belongs(other, run, path); });
  other.state.step = 0;  // nothing is recorded of the initial state
  EXPECT_NO_THROW(check_belongs(other, run, path));
  run.steps.resize(4);
  expect_error(ErrorKind::input, "is of step 5, but the run has 4 steps", [&] { check_belongs(c, run, path); });
}

class SealedFile : public testing::Test {
 protected:
  void write(const std::string& note = "x") const {
    SealedWriter to(path, "parity");
    to.attribute("note", note);
    to.attribute("count", "-5");
    to.attribute("seconds", "1e400");
    to.list<std::uint16_t>("halves", "bfloat16", std::vector<std::uint16_t>{1, 2});
    to.table<std::int64_t>("counts", "int64", 2, 3, std::vector<std::int64_t>{1, -2, 3, 4, 5, std::int64_t{1} << 62});
    to.table<std::uint32_t>("none", "uint32", 0, 7, {});
    to.commit(6);
  }
  TemporaryDirectory dir;
  std::string path = dir / "x.h5";
};

TEST_F(SealedFile, gives_attributes_lists_and_tables_again) {
  write();
  const SealedReader from(path, "parity");
  EXPECT_EQ(from.text("note"), "x");
  EXPECT_EQ(from.integer("count"), -5);
  EXPECT_EQ(from.list<std::uint16_t>("halves", "bfloat16"), (std::vector<std::uint16_t>{1, 2}));
  EXPECT_EQ(from.table<std::int64_t>("counts", "int64", 2, 3)[5], std::int64_t{1} << 62);
  EXPECT_TRUE(from.table<std::uint32_t>("none", "uint32", 0, 7).empty());
}

// The hash's definition in docs/parity.md, by hand: sha256sum of these bytes.
TEST_F(SealedFile, has_the_hash_that_is_documented) {
  UnverifiedGolden contents;
  contents.kind = "parity";
  contents.info.attributes = {{"b", "2"}, {"content_sha256", "any"}, {"a", "1"}};
  contents.info.datasets = {{"d", Role::output, "uint8", Format::uint8, {2}, {}}};
  contents.data = {{std::byte{7}, std::byte{8}}};
  EXPECT_EQ(content_sha256(contents), "bb889aca66e0d8b4170d1ba97b58ec695a910ec2689dcbcc5e03c7170dc29486");
}

TEST_F(SealedFile, refuses_what_is_not_asked_for) {
  write();
  const SealedReader from(path, "parity");
  const auto refused = [](const std::string& text, auto action) { expect_error(ErrorKind::input, text, action); };
  refused("x.h5: has no attribute 'other'", [&] { return from.text("other"); });
  refused("attribute 'note' is 'x', no decimal integer", [&] { return from.integer("note"); });
  refused("attribute 'seconds' is '1e400', no decimal number", [&] { return from.number("seconds"); });
  refused("has no dataset 'other'", [&] { return from.list<std::uint8_t>("other", "uint8"); });
  refused("halves has format 'bfloat16' and shape 2; wanted are 'float16'",
          [&] { return from.list<std::uint16_t>("halves", "float16"); });
  refused("counts has format 'int64' and shape 2 x 3; wanted are 'int64' and rank 1",
          [&] { return from.list<std::int64_t>("counts", "int64"); });
  refused("elements of another type", [&] { return from.list<std::uint32_t>("halves", "bfloat16"); });
  refused("counts is 2 x 3, but 3 x 2 by the rest", [&] { return from.table<std::int64_t>("counts", "int64", 3, 2); });
  refused("is of kind 'parity', not 'parity checkpoint'", [&] { SealedReader(path, "parity checkpoint"); });
}

TEST_F(SealedFile, refuses_what_its_hash_would_not_see) {
  GoldenInfo info{{{"file_version", kSealedVersion}}, {{"d", Role::input, "uint8", Format::uint8, {0}, {}}}};
  GoldenWriter(path, info, {.file_kind = "parity"}).commit();
  expect_error(ErrorKind::input, "d has attributes of its own", [&] { SealedReader(path, "parity"); });
  info.datasets[0].role = Role::output;
  info.datasets[0].attributes = {{"a", "b"}};
  GoldenWriter(path, info, {.file_kind = "parity"}).commit();
  expect_error(ErrorKind::input, "d has attributes of its own", [&] { SealedReader(path, "parity"); });
}

TEST_F(SealedFile, cannot_have_a_text_that_hdf5_cannot_hold) {
  expect_error(ErrorKind::usage, "attribute 'note' holds a zero byte", [&] { write(std::string("a\0b", 3)); });
  EXPECT_TRUE(dir.names().empty());
}

}  // namespace
}  // namespace mxcheck
