#include "trainer/record/journal_frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "numerics/byte_stream.h"
#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Bytes kStart = bytes_of("start");
const Bytes kOne = frame_of(3, bytes_of("payload"));
const Bytes kTwo = frame_of(4, {});

TEST(JournalFrames, have_a_mark_type_length_checksum_and_payload) {
  ASSERT_EQ(kOne.size(), kFrameHead + 7);
  const Bytes head = bytes_of(std::string_view("RJXM\3\0\0\0\7\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(Bytes(kOne.begin(), kOne.begin() + 16), head);
  EXPECT_EQ(Bytes(kOne.begin() + kFrameHead, kOne.end()), bytes_of("payload"));
}

TEST(JournalFrames, come_back_in_order) {
  const Bytes all = kStart + kOne + kTwo + kOne;
  const Frames frames = frames_in(all, kStart.size(), "x");
  ASSERT_EQ(frames.frames.size(), 3U);
  EXPECT_EQ(frames.frames[0].type, 3U);
  EXPECT_EQ(Bytes(frames.frames[0].payload.begin(), frames.frames[0].payload.end()), bytes_of("payload"));
  EXPECT_EQ(frames.frames[1].type, 4U);
  EXPECT_EQ(frames.frames[1].at, kStart.size() + kOne.size());
  EXPECT_TRUE(frames.frames[1].payload.empty());
  EXPECT_EQ(frames.whole_bytes, all.size());
  EXPECT_EQ(frames_in(kStart, kStart.size(), "x").frames.size(), 0U);
}

TEST(JournalFrames, that_are_torn_are_left_out) {
  for (std::size_t cut = 1; cut <= kOne.size(); ++cut) {
    Bytes all = kStart + kTwo + kOne;
    all.resize(all.size() - cut);
    const Frames frames = frames_in(all, kStart.size(), "x");
    EXPECT_EQ(frames.frames.size(), 1U);
    EXPECT_EQ(frames.whole_bytes, kStart.size() + kTwo.size());
  }
  EXPECT_EQ(frames_in(kStart + kOne + Bytes(4096), kStart.size(), "x").frames.size(), 1U) << "zeros of a lost page";
}

TEST(JournalFrames, before_a_whole_one_must_be_whole) {
  const std::size_t begin = kStart.size();
  for (std::size_t at = begin; at < begin + kOne.size(); ++at) {
    Bytes all = kStart + kOne + kTwo;
    all[at] ^= std::byte{0x40};
    const std::string text =
        "x: damaged at byte 5: no record is there, but one follows at byte " + std::to_string(begin + kOne.size());
    test::expect_error(ErrorKind::input, text, [&] { frames_in(all, begin, "x"); });
  }
  test::expect_error(ErrorKind::input, "damaged at byte 5",
                     [&] { frames_in(kStart + bytes_of("?") + kTwo, begin, "x"); });
}

TEST(JournalFrames, of_more_than_64_MiB_are_refused) {
  const Bytes payload(kMostPayload + 1);
  test::expect_error(ErrorKind::usage, "a journal's record of 67108865 bytes; at most 67108864",
                     [&] { frame_of(1, payload); });
}

// Marks that each promise all the rest: 43 GB to hash, were they all believed.
TEST(JournalFrames, a_tail_full_of_marks_is_refused_soon) {
  constexpr std::uint64_t kSize = 24 * 60000;
  ByteWriter to;
  for (std::uint64_t at = 0; at < kSize; at += kFrameHead) {
    to.number<std::uint32_t>(0x4D584A52), to.number<std::uint32_t>(1);
    to.number<std::uint64_t>(kSize - at - kFrameHead), to.number<std::uint64_t>(0);
  }
  try {
    frames_in(to.bytes(), 0, "x.journal");
    FAIL() << "a tail of marks";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("full of marks"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mxcheck
