#include "kernels/parallel/mesh.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "kernels/parallel/ranks.h"
#include "kernels/parallel/sockets.h"
#include "tests/kernels/parallel/on_ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

using std::chrono::milliseconds;
using test::on_ranks;

TEST(Mesh, all_gather_has_the_order_of_ranks) {
  for (const int ranks : {1, 2, 5}) {
    const auto said = on_ranks(ranks, milliseconds(10'000), [](Mesh& mesh) {
      std::string text;
      for (const std::string& of : mesh.all_gather("names", std::string(static_cast<std::size_t>(mesh.rank()), 'x')))
        text += std::to_string(of.size()) + " ";
      return text;
    });
    for (const std::string& text : said) EXPECT_EQ(text, std::string("0 1 2 3 4 ").substr(0, 2U * said.size()));
  }
}

TEST(Mesh, exchanges_more_than_sockets_hold_in_the_order_of_transfers) {
  constexpr std::size_t kMany = 3U << 20;
  const auto said = on_ranks(3, milliseconds(20'000), [](Mesh& mesh) -> std::string {
    std::vector<std::vector<std::byte>> out, in;
    std::vector<Transfer> sends, receives;
    for (int peer = 0; peer < 3; ++peer) {
      for (int part = 0; part < 2; ++part) {
        const std::size_t size = part == 0 ? kMany : 7;
        out.emplace_back(size, std::byte(16 * mesh.rank() + 4 * peer + part));
        in.emplace_back(size);
        sends.push_back({peer, out.back().data(), size}), receives.push_back({peer, in.back().data(), size});
      }
    }
    mesh.exchange("rows", sends, receives);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto expected = std::byte(16 * (i / 2) + 4U * static_cast<unsigned>(mesh.rank()) + i % 2);
      for (const std::byte b : in[i]) {
        if (b != expected) return "wrong";
      }
    }
    return "right";
  });
  for (const std::string& text : said) EXPECT_EQ(text, "right");
}

TEST(Mesh, a_barrier_says_who_was_late) {
  const auto said = on_ranks(3, milliseconds(10'000), [](Mesh& mesh) -> std::string {
    if (mesh.rank() == 1) std::this_thread::sleep_for(milliseconds(300));
    const std::vector<double> late = mesh.barrier("begin");
    return late[1] > 0.25 && late[1] > late[0] && late[1] > late[2] ? "rank 1 was late" : "wrong";
  });
  for (const std::string& text : said) EXPECT_EQ(text, "rank 1 was late");
}

TEST(Mesh, a_rank_that_does_not_come_to_a_step_is_named) {
  const auto said = on_ranks(3, milliseconds(1000), [](Mesh& mesh) -> std::string {
    if (mesh.rank() == 2) std::this_thread::sleep_for(milliseconds(2500));
    mesh.barrier("begin");
    return "here";
  });
  EXPECT_EQ(said[0], "rank 2 did not reach 'begin' within 1 s of rank 0");
  EXPECT_NE(said[1].find("rank 2 did not reach 'begin'"), std::string::npos) << said[1];
}

TEST(Mesh, a_rank_that_fails_says_why_on_every_rank) {
  const auto said = on_ranks(4, milliseconds(10'000), [](Mesh& mesh) -> std::string {
    if (mesh.rank() == 3) throw ParallelError(Fault::environment, "no memory here");
    mesh.barrier("begin");
    return "here";
  });
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(said[r], "rank 3 stopped: no memory here");
}

TEST(Mesh, a_rank_that_ends_is_named) {
  const auto said = on_ranks(3, milliseconds(10'000), [](Mesh& mesh) -> std::string {
    if (mesh.rank() == 1) return "gone";
    mesh.barrier("begin");
    return "here";
  });
  for (const std::size_t r : {0U, 2U}) EXPECT_NE(said[r].find("rank 1 ended before"), std::string::npos) << said[r];
}

TEST(Mesh, ranks_at_other_steps_or_with_other_sizes_are_named) {
  auto said = on_ranks(2, milliseconds(10'000), [](Mesh& mesh) -> std::string {
    mesh.barrier(mesh.rank() == 0 ? "forward" : "backward");
    return "here";
  });
  EXPECT_NE((said[0] + said[1]).find(" is at another step than rank "), std::string::npos) << said[0];
  said = on_ranks(2, milliseconds(10'000), [](Mesh& mesh) -> std::string {
    std::byte bytes[8] = {};
    const Transfer sends{1 - mesh.rank(), bytes, 4}, receives{1 - mesh.rank(), bytes, mesh.rank() == 0 ? 8U : 4U};
    mesh.exchange("rows", {&sends, 1}, {&receives, 1});
    return "here";
  });
  EXPECT_EQ(said[0], "rank 1 sends 4 bytes in 'rows', and rank 0 expects 8");
}

TEST(Mesh, missing_ranks_are_named_where_the_ranks_meet) {
  const RankPlace place{"test", 0, 3, 0, "127.0.0.1", 0};
  Socket listener = listen_at(true, 0);
  try {
    const Mesh mesh(place, {milliseconds(200), dup(listener.fd())});
    FAIL();
  } catch (const ParallelError& e) {
    EXPECT_EQ(e.fault(), Fault::rank);
    EXPECT_EQ(std::string(e.what()), "ranks 1 and 2 of 3 did not reach 127.0.0.1:0 within 0.2 s");
  }
}

TEST(Mesh, strangers_are_no_ranks) {
  Socket listener = listen_at(true, 0);
  const int port = port_of(listener);
  std::thread stranger([port] {
    const Socket socket = connect_until("127.0.0.1", port, Clock::now() + milliseconds(1000));
    const std::string words(64, 'G');
    (void)send_all(socket, words.data(), words.size(), Clock::now() + milliseconds(1000));
  });
  stranger.join();
  std::string other;
  std::thread first([&] {
    std::this_thread::sleep_for(milliseconds(50));
    try {
      Mesh mesh({"test", 1, 2, 1, "127.0.0.1", port}, {milliseconds(5000)});
      mesh.barrier("begin");
      other = "here";
    } catch (const ParallelError& e) {
      other = e.what();
    }
  });
  Mesh mesh({"test", 0, 2, 0, "127.0.0.1", port}, {milliseconds(5000), dup(listener.fd())});
  mesh.barrier("begin");
  first.join();
  EXPECT_EQ(other, "here");
}

TEST(Mesh, ranks_that_know_of_other_numbers_of_ranks_are_named) {
  Socket listener = listen_at(true, 0);
  const int port = port_of(listener);
  const auto said_by = [](const RankPlace& place, const MeshOptions& options) -> std::string {
    try {
      const Mesh mesh(place, options);
      return "met";
    } catch (const ParallelError& e) {
      return e.what();
    }
  };
  std::string other;
  std::thread second([&] { other = said_by({"test", 1, 3, 1, "127.0.0.1", port}, {milliseconds(3000)}); });
  const std::string first = said_by({"test", 0, 2, 0, "127.0.0.1", port}, {milliseconds(3000), dup(listener.fd())});
  second.join();
  EXPECT_EQ(first, "rank 1 knows of 3 ranks, rank 0 of 2: start all with the same number");
  EXPECT_EQ(other, "rank 0 refused: " + first);
}

}  // namespace
}  // namespace mxcheck_kernels::parallel
