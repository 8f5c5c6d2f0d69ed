#include "properties/process/message_buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace mxcheck {
namespace {

// The problem that take() reports after the library has written; "" for none.
template <class Write>
std::string problem_after(const Write& write, std::string* text = nullptr) {
  MessageBuffer buffer;
  buffer.clear();
  write(buffer.text());
  wire::Reply reply;
  const char* problem = buffer.take(reply);
  if (text != nullptr) *text = reply.message;
  return problem == nullptr ? "" : problem;
}

TEST(MessageBuffer, a_text_that_fits_is_handed_on) {
  std::string text;
  EXPECT_EQ(problem_after([](char*) {}, &text), "");
  EXPECT_EQ(text, "");
  EXPECT_EQ(problem_after([](char* to) { std::strcpy(to, "no"); }, &text), "");
  EXPECT_EQ(text, "no");
  EXPECT_EQ(problem_after([](char* to) { std::memset(to, 'a', 511), to[511] = '\0'; }, &text), "");
  EXPECT_EQ(text.size(), 511U);
}

TEST(MessageBuffer, one_byte_outside_or_a_missing_end_is_told) {
  EXPECT_EQ(problem_after([](char* to) { std::memset(to, 'a', 512), to[512] = '\0'; }),
            "wrote past message_bytes, the end of its message's buffer");
  EXPECT_EQ(problem_after([](char* to) { to[-1] = 'a'; }), "wrote before the buffer of its message");
  std::string text;
  EXPECT_EQ(problem_after([](char* to) { std::memcpy(to, "no", 2); }, &text),
            "left a message that no NUL ends within message_bytes");
  EXPECT_EQ(text.substr(0, 2), "no");
  EXPECT_EQ(text.size(), 511U);
}

}  // namespace
}  // namespace mxcheck
