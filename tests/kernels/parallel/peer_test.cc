#include "kernels/parallel/peer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/kernels/parallel/on_ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

using std::chrono::milliseconds;
using Work = std::function<std::string(Mesh&, HostDevice&)>;

// Ranks whose memory the others open.
std::vector<std::string> on_peers(int ranks, milliseconds timeout, const Work& work) {
  return test::on_ranks(ranks, timeout, [&](Mesh& mesh) {
    HostDevice device(mesh, timeout);
    return work(mesh, device);
  });
}

constexpr std::uint64_t kRow = 5000;

// A row for every rank, itself too; of rank r to rank q all bytes 16 r + q.
struct RowForEach {
  Memory out, in;
  Exchange exchange;
  RowForEach(Mesh& mesh, Device& device, const std::string& step)
      : out(device, kRow * static_cast<std::uint64_t>(mesh.ranks())),
        in(device, kRow * static_cast<std::uint64_t>(mesh.ranks())) {
    exchange.step = step;
    for (int q = 0; q < mesh.ranks(); ++q) {
      const std::uint64_t at = kRow * static_cast<std::uint64_t>(q);
      std::memset(out.at(at), 16 * mesh.rank() + q, kRow);
      exchange.sends.push_back({q, out.at(at), kRow});
      // Cut elsewhere than where it is sent: bytes of a pair of ranks are one stream.
      exchange.receives.push_back({q, in.at(at), 1});
      exchange.receives.push_back({q, in.at(at + 1), kRow - 1});
    }
    exchange.sends.push_back({mesh.rank(), nullptr, 0});
  }
  [[nodiscard]] bool right(const Mesh& mesh) const {
    for (int q = 0; q < mesh.ranks(); ++q) {
      for (std::uint64_t i = 0; i < kRow; ++i) {
        if (*in.at(kRow * static_cast<std::uint64_t>(q) + i) != std::byte(16 * q + mesh.rank())) return false;
      }
    }
    return true;
  }
};

TEST(Peers, rows_are_where_they_go_step_after_step) {
  for (const int ranks : {1, 2, 5}) {
    const auto said = on_peers(ranks, milliseconds(20'000), [](Mesh& mesh, HostDevice& device) -> std::string {
      RowForEach first(mesh, device, "first"), second(mesh, device, "second");
      const std::vector<Exchange> all{first.exchange, second.exchange};
      device.connect(all);
      for (int pass = 0; pass < 20; ++pass) {
        for (RowForEach* rows : {&first, &second}) {
          device.clear(rows->in.data(), rows->in.bytes());
          device.transfer(rows->exchange.step, rows->exchange.sends, rows->exchange.receives);
          if (!rows->right(mesh)) return "wrong in pass " + std::to_string(pass);
        }
      }
      // Other memory under the same names.
      RowForEach third(mesh, device, "first");
      device.connect({&third.exchange, 1});
      device.transfer("first", third.exchange.sends, third.exchange.receives);
      device.disconnect();
      return third.right(mesh) ? "right" : "wrong";
    });
    for (const std::string& text : said) EXPECT_EQ(text, "right") << ranks;
  }
}

// A rank that is behind is not written to before it says so.
TEST(Peers, nobody_writes_where_a_rank_still_reads) {
  const auto said = on_peers(2, milliseconds(20'000), [](Mesh& mesh, HostDevice& device) -> std::string {
    RowForEach rows(mesh, device, "rows");
    device.connect({&rows.exchange, 1});
    for (int pass = 0; pass < 4; ++pass) {
      if (mesh.rank() == 1 && pass > 0) {
        std::this_thread::sleep_for(milliseconds(30));
        if (*rows.in.at(0) != std::byte(0xEE)) return "written to";
      }
      std::memset(rows.in.data(), 0xEE, rows.in.bytes());
      device.transfer("rows", rows.exchange.sends, rows.exchange.receives);
      std::memset(rows.in.data(), 0xEE, rows.in.bytes());
    }
    return "right";
  });
  for (const std::string& text : said) EXPECT_EQ(text, "right");
}

TEST(Peers, a_rank_that_does_not_come_or_has_ended_is_named) {
  auto said = on_peers(3, milliseconds(600), [](Mesh& mesh, HostDevice& device) -> std::string {
    RowForEach rows(mesh, device, "rows");
    device.connect({&rows.exchange, 1});
    if (mesh.rank() == 1) std::this_thread::sleep_for(milliseconds(2000));
    device.transfer("rows", rows.exchange.sends, rows.exchange.receives);
    return "here";
  });
  EXPECT_NE(said[0].find("rank 1 did not reach 'rows' within 0.6 s of rank "), std::string::npos) << said[0];
  said = on_peers(3, milliseconds(20'000), [](Mesh& mesh, HostDevice& device) -> std::string {
    RowForEach rows(mesh, device, "rows");
    device.connect({&rows.exchange, 1});
    if (mesh.rank() == 2) throw ParallelError(Fault::environment, "no memory here");
    device.transfer("rows", rows.exchange.sends, rows.exchange.receives);
    return "here";
  });
  for (const std::size_t r : {0U, 1U}) EXPECT_EQ(said[r], "rank 2 stopped: no memory here");
}

TEST(Peers, ranks_with_other_steps_or_sizes_are_named) {
  auto said = on_peers(2, milliseconds(20'000), [](Mesh& mesh, HostDevice& device) -> std::string {
    RowForEach rows(mesh, device, mesh.rank() == 0 ? "forward" : "backward");
    device.connect({&rows.exchange, 1});
    return "here";
  });
  EXPECT_EQ(said[0], "rank 1 has other steps: all ranks need the same options");
  said = on_peers(2, milliseconds(20'000), [](Mesh& mesh, HostDevice& device) -> std::string {
    RowForEach rows(mesh, device, "rows");
    if (mesh.rank() == 0) rows.exchange.sends.push_back({1, rows.out.at(0), 7});
    device.connect({&rows.exchange, 1});
    return "here";
  });
  EXPECT_EQ(said[0], "rank 0 sends 5007 bytes in 'rows', and rank 1 expects 5000");
  said = on_peers(1, milliseconds(20'000), [](Mesh&, HostDevice& device) -> std::string {
    device.transfer("rows", {}, {});
    return "here";
  });
  EXPECT_EQ(said[0], "the step 'rows' was not told before");
}

// Memory that some rank cannot open: no rank uses any.
class ShutMemory final : public PeerMemory {
 public:
  [[nodiscard]] std::string host() const override { return "host"; }
  Shown show(const void*) override { return {"key", nullptr}; }
  std::byte* open(const std::string&) override { throw ParallelError(Fault::environment, "no way there"); }
  void close(std::byte*) noexcept override {}
  void all_closed() override {}
  void copy(const PeerCopy&) override {}
  void write(std::uint32_t*, std::uint32_t) override {}
  void wait(int, const std::uint32_t*, std::uint32_t, std::string_view) override {}
  void push(std::span<const PeerPush>, std::uint32_t, std::string_view) override {}
};

TEST(Peers, memory_that_cannot_be_opened_is_a_problem_of_all) {
  const auto said = on_peers(2, milliseconds(20'000), [](Mesh& mesh, HostDevice&) -> std::string {
    ShutMemory memory;
    std::vector<std::uint32_t> words(PeerExchange::words_of(mesh.ranks()));
    return PeerExchange(mesh, memory, words.data()).problem();
  });
  for (const std::string& text : said) EXPECT_EQ(text, "rank 0 cannot write to memory of rank 1: no way there");
}

}  // namespace
}  // namespace mxcheck_kernels::parallel
