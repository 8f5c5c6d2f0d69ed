#include "properties/process/contain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace mxcheck {
namespace {

wire::Message some_message() {
  wire::Message message;
  message.number = 7, message.repeat = 10;
  message.request = wire::Request::compare;
  message.num_inputs = 1, message.num_outputs = 1;
  message.tensors[1].ndim = 2, message.tensors[1].shape[0] = 3, message.tensors[1].shape[1] = 5;
  return message;
}

// A reply that is right but for an edit.
template <class Edit>
std::string problem_with(const Edit& edit) {
  wire::Reply reply;
  reply.number = 7, reply.num_operations = wire::kMaxOperations;
  reply.memory.calls = 10;
  reply.comparison.compared = 15, reply.comparison.differing = 15, reply.comparison.first = 14;
  edit(reply);
  return reply_problem(some_message(), reply);
}

TEST(Reply, that_a_worker_can_have_sent_has_no_problem) {
  EXPECT_EQ(problem_with([](wire::Reply&) {}), "");
  EXPECT_EQ(reply_problem({}, {}), "");
}

TEST(Reply, of_another_message_or_of_bytes_is_none) {
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.number = 8; }), "answers no message");
  EXPECT_EQ(problem_with([](wire::Reply& r) { std::memset(static_cast<void*>(&r), 0xEE, sizeof(r)); }),
            "answers no message");
}

TEST(Reply, whose_texts_do_not_end_is_none) {
  const auto fill = [](auto& text) { std::memset(text, 'n', sizeof(text)); };
  const char* const problem = "has a text without an end";
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.message); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.device_error); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.conduct); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.comparison.problem); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.unconfined); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.device_text); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.name); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.version); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.operations[31].name); }), problem);
  EXPECT_EQ(problem_with([&](wire::Reply& r) { fill(r.operations[0].contract); }), problem);
}

TEST(Reply, whose_numbers_are_out_of_bounds_is_none) {
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.num_operations = 33; }), "has too many operations");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.num_operations = -1; }), "has too many operations");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.zones_broken = 0xEE; }), "has a flag that is neither 0 nor 1");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.memory.calls = 11; }), "has memory of calls that were not made");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.memory.end.resident = -1; }), "has memory of calls that were not made");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.comparison.first = 15; }), "names an output that does not exist");
  EXPECT_EQ(problem_with([](wire::Reply& r) { r.comparison.differing = 16; }), "names an output that does not exist");
}

TEST(PrintedLines, are_whole_marked_and_without_control_characters) {
  PrintedLines lines;
  EXPECT_EQ(lines.take("one\ntw"), "library: one\n");
  EXPECT_EQ(lines.take("o\tthree\r\n\n"), "library: two\tthree\n");
  EXPECT_EQ(lines.take("\033[31mred\x9b\a"), "");
  EXPECT_EQ(lines.end(), "library: ?[31mred??\n");
  EXPECT_EQ(lines.end(), "");
}

TEST(PrintedLines, are_cut_where_they_are_long_or_many) {
  PrintedLines lines;
  const std::string one = lines.take(std::string(PrintedLines::kLongest, 'a') + "b\n");
  EXPECT_EQ(one, "library: " + std::string(PrintedLines::kLongest, 'a') + "\nlibrary: b\n");
  std::string all;
  for (int i = 0; i < 2000; ++i) all += lines.take(std::string(999, 'c') + "\n");
  EXPECT_LT(all.size(), PrintedLines::kMost + 2000);
  EXPECT_TRUE(all.ends_with("ccc\nmxcheck: the library has printed 1 MB; the rest is left out\n"));
}

TEST(LinesOfProcesses, are_shown_once_for_all_processes_and_as_often_as_one_repeats_them) {
  LinesOfProcesses lines;
  EXPECT_EQ(lines.unseen("library: warning\nlibrary: first\nlibrary: first\n", 1),
            "library: warning\nlibrary: first\nlibrary: first\n");
  EXPECT_EQ(lines.unseen("library: warning\nlibrary: second\n", 2), "library: second\n");
  EXPECT_EQ(lines.unseen("library: second\n", 2), "library: second\n");
  EXPECT_EQ(lines.unseen("library: first\nlibrary: second\n", 3), "");
  EXPECT_EQ(lines.unseen("", 3), "");
}

}  // namespace
}  // namespace mxcheck
