#include "goldens/io/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace mxcheck {
namespace {

std::string of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

TEST(Sha256, gives_the_digests_of_the_standards_examples) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, does_not_depend_on_how_the_bytes_are_cut) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  for (const std::size_t step : std::vector<std::size_t>{1, 3, 64, 999}) {
    Sha256 hash;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      hash.update(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
    }
    EXPECT_EQ(hash.hex(), sha256(bytes)) << step;
  }
}

TEST(Sha256, of_a_source_is_that_of_its_bytes_at_every_size_around_a_piece) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4 << 20} - 1, std::size_t{4 << 20},
                                 std::size_t{8 << 20}, std::size_t{12 << 20} + 5}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 20));
    const SpanSource source(bytes, "bytes");
    std::vector<std::byte> into(size);
    EXPECT_EQ(sha256(source), sha256(bytes)) << size;
    EXPECT_EQ(sha256(source, into), sha256(bytes)) << size;
    EXPECT_EQ(into, bytes) << size;
  }
}

}  // namespace
}  // namespace mxcheck
