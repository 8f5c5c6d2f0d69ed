#pragma once
// Ranks as threads of a test's process, each with a Mesh to all others.

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/parallel/mesh.h"
#include "kernels/parallel/ranks.h"
#include "kernels/parallel/sockets.h"

namespace mxcheck_kernels::parallel::test {

// The text that each rank's work returns, or that of the ParallelError it throws.
inline std::vector<std::string> on_ranks(int ranks, std::chrono::milliseconds timeout,
                                         const std::function<std::string(Mesh&)>& work) {
  Socket listener = listen_at(true, 0);
  const int port = port_of(listener);
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      std::string& mine = said[static_cast<std::size_t>(r)];
      std::unique_ptr<Mesh> mesh;
      try {
        MeshOptions options{timeout};
        if (r == 0) options.listener = dup(listener.fd());
        mesh = std::make_unique<Mesh>(RankPlace{"test", r, ranks, r, "127.0.0.1", port}, options);
        mine = work(*mesh);
      } catch (const ParallelError& e) {
        mine = e.what();
        if (mesh) mesh->fail(e.what());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return said;
}

}  // namespace mxcheck_kernels::parallel::test
