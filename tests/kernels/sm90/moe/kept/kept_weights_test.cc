// The header of kept weights and their digests on the device, against the host's. Needs a GPU; without one every test
// is skipped.

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/common/digest.h"
#include "kernels/sm90/moe/kept/kept_weights.h"
#include "kernels/sm90/moe/ms_eden.h"
#include "kernels/sm90/moe/square_codes.h"
#include "kernels/sm90/moe/two_level.h"
#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck::test {
namespace {

using mxcheck_kernels::digest_mix, mxcheck_kernels::digest_term;
using namespace mxcheck_kernels::sm90;

class KeptWeights : public DeviceTest {};

std::vector<std::uint16_t> some_weights(std::int64_t count) {
  std::vector<std::uint16_t> w(at(count));
  for (std::int64_t i = 0; i < count; ++i) w[at(i)] = static_cast<std::uint16_t>(digest_mix(static_cast<unsigned>(i)));
  return w;
}

std::uint64_t digest_of(const std::vector<std::uint16_t>& w) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < w.size(); i += 4) {
    std::uint64_t word = 0;
    std::memcpy(&word, w.data() + i, sizeof(word));
    sum += digest_term(i / 4, word);
  }
  return sum;
}

template <class T>
T read_back(const DeviceBytes& from) {
  T value;
  EXPECT_EQ(cudaMemcpy(&value, from.data(), sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

// The memory, the plan's header and the report of one call after another.
struct Memory {
  DeviceBytes header{kKeptHeaderBytes}, plan{sizeof(PlanHeader)}, report{sizeof(mxcheck_device_report)},
      digests{2 * sizeof(std::uint64_t)};
  explicit Memory(std::int32_t status = MXCHECK_OK) {
    EXPECT_EQ(cudaMemset(header.data(), 0xA5, header.size()), cudaSuccess);
    begin(status);
  }
  void begin(std::int32_t status) {
    const PlanHeader with{status, 0, 0};
    EXPECT_EQ(cudaMemcpy(plan.data(), &with, sizeof(with), cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemset(report.data(), 0, report.size()), cudaSuccess);
  }
  [[nodiscard]] KeptJob job(const KeptLayer& layer, bool checks) const {
    return {layer, static_cast<KeptHeader*>(header.data()),
            checks ? static_cast<unsigned long long*>(digests.data()) : nullptr, static_cast<PlanHeader*>(plan.data()),
            static_cast<mxcheck_device_report*>(report.data())};
  }
  [[nodiscard]] std::int32_t status() const { return read_back<PlanHeader>(plan).status; }
};

// Sizes of less than a block of threads, of a tail after whole rounds, of several rounds.
TEST_F(KeptWeights, digests_are_the_hosts) {
  for (const std::int64_t count : {8LL, 24LL, 4096LL, 132LL * 4 * 512 * 8, 132LL * 4 * 512 * 8 * 4 + 136, 9000008LL}) {
    const std::vector<std::uint16_t> w = some_weights(count);
    const Input<std::uint16_t> x(w);
    Memory memory;
    const KeptJob job = memory.job({}, true);
    ASSERT_EQ(done(launch_begin_digests(job, nullptr)), cudaSuccess);
    ASSERT_EQ(done(launch_digest(x.data(), count, job.digests + 1, job.plan, nullptr)), cudaSuccess);
    const auto digests = read_back<std::array<std::uint64_t, 2>>(memory.digests);
    EXPECT_EQ(digests[0], 0U) << count;
    EXPECT_EQ(digests[1], digest_of(w)) << count;
  }
}

TEST_F(KeptWeights, a_header_is_that_of_its_layer_and_weights) {
  const std::vector<std::uint16_t> w = some_weights(1024);
  const Input<std::uint16_t> x(w);
  KeptLayer layer;
  layer.cols = 128, layer.inner = 256, layer.experts = 3, layer.recipe = 7, layer.pass = 1;
  Memory memory;
  ASSERT_EQ(done(launch_check_kept_header(memory.job(layer, false), nullptr)), cudaSuccess);
  EXPECT_EQ(memory.status(), MXCHECK_INVALID);  // memory that no call has written
  EXPECT_EQ(read_back<mxcheck_device_report>(memory.report).status, MXCHECK_INVALID);
  memory.begin(MXCHECK_OK);
  const KeptJob job = memory.job(layer, true);
  ASSERT_EQ(done(launch_begin_keeping(job, nullptr)), cudaSuccess);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(done(launch_digest(x.data(), 1024, job.digests + i, job.plan, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_write_kept_header(job, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_begin_digests(job, nullptr)), cudaSuccess);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(done(launch_digest(x.data(), 1024, job.digests + i, job.plan, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_check_kept_header(job, nullptr)), cudaSuccess);
  EXPECT_EQ(memory.status(), MXCHECK_OK);
  ASSERT_EQ(done(launch_digest(x.data(), 8, job.digests + 1, job.plan, nullptr)), cudaSuccess);  // W2 is another
  ASSERT_EQ(done(launch_check_kept_header(job, nullptr)), cudaSuccess);
  EXPECT_EQ(memory.status(), MXCHECK_INVALID);
  EXPECT_EQ(read_back<mxcheck_device_report>(memory.report).index, 2);
  for (std::int64_t KeptLayer::*field : {&KeptLayer::cols, &KeptLayer::inner, &KeptLayer::experts}) {
    KeptLayer other = layer;
    other.*field += 1;
    memory.begin(MXCHECK_OK);
    ASSERT_EQ(done(launch_check_kept_header(memory.job(other, false), nullptr)), cudaSuccess);
    EXPECT_EQ(memory.status(), MXCHECK_INVALID);
  }
}

// A call that ends before its last step leaves memory that is refused.
TEST_F(KeptWeights, from_the_first_weight_to_the_last_there_is_no_header) {
  Memory memory;
  const KeptLayer layer;
  const KeptJob job = memory.job(layer, true);
  ASSERT_EQ(done(launch_begin_keeping(job, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_write_kept_header(job, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_begin_keeping(job, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_check_kept_header(memory.job(layer, false), nullptr)), cudaSuccess);
  EXPECT_EQ(memory.status(), MXCHECK_INVALID);
}

TEST_F(KeptWeights, after_a_refusal_nothing_is_written) {
  const Memory memory(MXCHECK_INVALID);
  const std::vector<std::uint16_t> w = some_weights(1024);
  const Input<std::uint16_t> x(w);
  const KeptJob job = memory.job({}, true);
  ASSERT_EQ(done(launch_begin_keeping(job, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_write_kept_header(job, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_digest(x.data(), 1024, job.header->digests, job.plan, nullptr)), cudaSuccess);
  ASSERT_EQ(done(launch_check_kept_header(job, nullptr)), cudaSuccess);
  const auto bytes = read_back<std::array<std::uint8_t, sizeof(KeptHeader)>>(memory.header);
  for (const std::uint8_t byte : bytes) ASSERT_EQ(byte, 0xA5);
  EXPECT_EQ(read_back<mxcheck_device_report>(memory.report).status, MXCHECK_OK);
}

// Values of two levels are kept with the amax of their tensor.
TEST_F(KeptWeights, after_a_refusal_an_amax_and_its_values_stay) {
  const Input<std::uint16_t> x(some_weights(1024));
  Output<std::uint16_t> values(1024), rotated(1024);
  Output<std::uint32_t> amax(1);
  for (const std::int32_t status : {MXCHECK_INVALID, MXCHECK_OK}) {
    const Memory memory(status);
    const TiledRows rows{16, 1, static_cast<const PlanHeader*>(memory.plan.data()), nullptr};
    TwoLevelJob levels;
    levels.x = x.data(), levels.cols = 64, levels.rows = rows, levels.values = values.data(), levels.amax = amax.data();
    ASSERT_EQ(done(launch_two_level(levels, nullptr)), cudaSuccess);
    EXPECT_EQ(amax.read() == poisoned<std::uint32_t>(1), status != MXCHECK_OK);
    EXPECT_EQ(values.read() == poisoned<std::uint16_t>(1024), status != MXCHECK_OK);
  }
  Output<std::uint32_t> amax_of_rotated(1);
  Output<float> amax_of_codes(1);
  const Memory memory(MXCHECK_INVALID);
  const auto* const header = static_cast<const PlanHeader*>(memory.plan.data());
  MsEdenJob eden;
  eden.x = x.data(), eden.cols = 64, eden.rows = {16, 1, header, nullptr};
  eden.rotated = rotated.data(), eden.values = values.data(), eden.amax = amax_of_rotated.data();
  ASSERT_EQ(done(launch_ms_eden(eden, nullptr)), cudaSuccess);
  EXPECT_EQ(amax_of_rotated.read(), poisoned<std::uint32_t>(1));
  ASSERT_EQ(done(launch_amax({x.data(), 1024, amax_of_codes.data(), header}, nullptr)), cudaSuccess);
  EXPECT_EQ(amax_of_codes.read(), poisoned<float>(1));
}

}  // namespace
}  // namespace mxcheck::test
