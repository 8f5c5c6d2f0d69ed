#include "goldens/io/spill_buffer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

std::vector<std::byte> drained(SpillBuffer& spill) {
  std::vector<std::byte> all;
  spill.drain([&](std::span<const std::byte> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); });
  return all;
}

TEST(SpillBuffer, gives_bytes_back_in_order_from_memory_and_from_disk) {
  const test::TemporaryDirectory dir;
  SpillBuffer spill(dir.path());
  for (const std::size_t bytes : std::vector<std::size_t>{0, 1, 1000, 1 << 20, (1 << 20) + 1, 5'000'000}) {
    const std::vector<std::byte> data = test::pattern(bytes);
    for (std::size_t at = 0; at < bytes; at += 300'000) {
      spill.append(std::span(data).subspan(at, std::min<std::size_t>(300'000, bytes - at)));
    }
    EXPECT_TRUE(dir.names().empty()) << "the file has a name";
    EXPECT_EQ(drained(spill), data) << bytes;
  }
  EXPECT_TRUE(drained(spill).empty());
}

TEST(SpillBuffer, reports_a_full_disk_and_a_folder_that_is_gone) {
  const test::TemporaryDirectory dir;
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1'500'000, old.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  test::expect_error(ErrorKind::environment, "temporary file: writing failed: File too large", [&] {
    SpillBuffer spill(dir.path());
    spill.append(test::pattern(5'000'000));
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  test::expect_error(ErrorKind::environment, "temporary file: cannot be created: No such file or directory", [&] {
    SpillBuffer spill(dir / "gone");
    spill.append(test::pattern(5'000'000));
  });
}

}  // namespace
}  // namespace mxcheck
