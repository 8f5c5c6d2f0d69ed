// Refusals of the interface of kernels/train.h before it looks for a device, and how they are told.

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "kernels/train.h"
#include "tests/kernels/sm90/train/device_run.h"

namespace mxcheck::test {
namespace {

struct Refused {
  mxcheck_status status;
  std::string message;
};

Refused refused(const std::function<void(mxcheck_train_config&)>& change) {
  TrainingConfig config;
  config.model = {.layers = 2, .width = 64, .heads = 2, .experts = 8, .inner = 32, .top_k = 2, .length = 64};
  config.batch = 4, config.recipe = layer_recipe_named("mxfp8");
  const std::vector<float> table(64 * 16);
  mxcheck_train_config c = train_config(config, table, table, 0);
  change(c);
  char message[256] = "";
  mxcheck_train_run* run = nullptr;
  const mxcheck_status status = mxcheck_train()->create(&c, &run, message, sizeof(message));
  mxcheck_train()->destroy(run);
  return {status, message};
}

void expect_refused(mxcheck_status status, const char* words,
                    const std::function<void(mxcheck_train_config&)>& change) {
  const Refused r = refused(change);
  EXPECT_EQ(r.status, status) << words << ": " << r.message;
  EXPECT_NE(r.message.find(words), std::string::npos) << r.message;
}

TEST(Sm90TrainInterface, configurations_that_cannot_be_are_invalid) {
  expect_refused(MXCHECK_INVALID, "config.size", [](auto& c) { c.size = 8; });
  expect_refused(MXCHECK_INVALID, "config.layers is 0", [](auto& c) { c.layers = 0; });
  expect_refused(MXCHECK_INVALID, "must be a multiple of config.heads", [](auto& c) { c.heads = 3; });
  expect_refused(MXCHECK_INVALID, "config.top_k is 9", [](auto& c) { c.top_k = 9; });
  expect_refused(MXCHECK_INVALID, "config.bf16_last is -1", [](auto& c) { c.bf16_last = -1; });
  expect_refused(MXCHECK_INVALID, "config.bf16_last is", [](auto& c) { c.bf16_last = c.layers; });
  expect_refused(MXCHECK_INVALID, "config.microbatches is 3 of a batch of 4", [](auto& c) { c.microbatches = 3; });
  expect_refused(MXCHECK_INVALID, "config.microbatches is 8 of a batch of 4", [](auto& c) { c.microbatches = 8; });
  expect_refused(MXCHECK_INVALID, "config.microbatches is -2", [](auto& c) { c.microbatches = -2; });
  expect_refused(MXCHECK_INVALID, "config.ranks is 4 for 2 microbatches",
                 [](auto& c) { c.microbatches = 2, c.ranks = 4; });
  expect_refused(MXCHECK_INVALID, "config.rank is 2", [](auto& c) { c.microbatches = 2, c.ranks = 2, c.rank = 2; });
  expect_refused(MXCHECK_INVALID, "config.exchange", [](auto& c) { c.microbatches = 2, c.ranks = 2; });
  expect_refused(MXCHECK_INVALID, "config.batch is", [](auto& c) { c.batch = std::int64_t{1} << 40; });
  expect_refused(MXCHECK_INVALID, "config.rounding is expert-choice", [](auto& c) { c.rounding = "expert-choice"; });
  expect_refused(MXCHECK_INVALID, "config.tile is 0", [](auto& c) { c.rounding = "nr-f", c.tile = 0; });
  expect_refused(MXCHECK_INVALID, "config.bf16_moments", [](auto& c) { c.bf16_moments = 2; });
  expect_refused(MXCHECK_INVALID, "config.sine", [](auto& c) { c.sine = nullptr; });
  expect_refused(MXCHECK_INVALID, "config.decay is not finite",
                 [](auto& c) { c.decay = std::numeric_limits<float>::quiet_NaN(); });
}

TEST(Sm90TrainInterface, sizes_that_no_kernel_takes_are_unsupported) {
  expect_refused(MXCHECK_UNSUPPORTED, "config.width of 60", [](auto& c) { c.width = 60; });
  expect_refused(MXCHECK_UNSUPPORTED, "config.width / heads of 4", [](auto& c) { c.heads = 16; });
  expect_refused(MXCHECK_UNSUPPORTED, "config.length of 63", [](auto& c) { c.length = 63; });
  expect_refused(MXCHECK_UNSUPPORTED, "config.experts of 12", [](auto& c) { c.experts = 12; });
  expect_refused(MXCHECK_UNSUPPORTED, "config.inner of 32", [](auto& c) { c.recipe = "dsv3"; });
  expect_refused(MXCHECK_UNSUPPORTED, "recipe fp6", [](auto& c) { c.recipe = "fp6"; });
  expect_refused(MXCHECK_UNSUPPORTED, "elements of w1", [](auto& c) { c.inner = 1 << 22; });
}

TEST(Sm90TrainInterface, null_is_refused_and_has_no_parameters) {
  char message[128] = "";
  EXPECT_EQ(mxcheck_train()->create(nullptr, nullptr, message, sizeof(message)), MXCHECK_INVALID);
  EXPECT_NE(std::string(message).find("null"), std::string::npos);
  EXPECT_EQ(mxcheck_train()->step(nullptr, nullptr, nullptr, nullptr, 0), MXCHECK_INVALID);
  EXPECT_EQ(mxcheck_train()->parameter_size(nullptr, 0), -1);
  mxcheck_train()->destroy(nullptr);
}

TEST(Sm90TrainInterface, the_table_is_of_this_version) {
  EXPECT_EQ(mxcheck_train()->interface_version, MXCHECK_TRAIN_VERSION);
  EXPECT_EQ(mxcheck_train()->size, sizeof(mxcheck_train_table));
  EXPECT_EQ(mxcheck_train()->config_bytes, sizeof(mxcheck_train_config));
}

}  // namespace
}  // namespace mxcheck::test
