// The child process by itself: what it answers to messages, and how it ends.

#include "properties/process/worker.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/check.h"
#include "properties/process/shared_call.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kShared = 1 << 20;

// run_worker in a process of its own, at the other end of a socket.
class Child {
 public:
  explicit Child(const std::string& library) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const int shared = memfd_create("worker_test", 0);
    EXPECT_EQ(ftruncate(shared, kShared), 0);
    memory_ = static_cast<std::byte*>(mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0));
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      std::array<std::string, 6> texts{"mxcheck", "__worker", library, std::to_string(ends[1]), std::to_string(shared),
                                       ""};
      std::array<char*, 6> arguments{};
      for (std::size_t i = 0; i < texts.size(); ++i) arguments[i] = texts[i].data();
      _exit(run_worker(static_cast<int>(arguments.size()), arguments.data()));
    }
    close(ends[1]), close(shared);
    socket_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) (void)end();
    munmap(memory_, kShared);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False: it died.
  bool ask(wire::Message message, wire::Reply& reply) {
    message.shared_bytes = kShared;
    if (send(socket_, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message)) return false;
    return recv(socket_, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply);
  }
  wire::Reply describe() {
    wire::Reply reply;
    EXPECT_TRUE(ask({}, reply));
    return reply;
  }
  // Hangs up; the status of waitpid.
  int end() {
    close(socket_);
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }
  [[nodiscard]] std::byte* memory() const { return memory_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::byte* memory_ = nullptr;
};

std::unique_ptr<Problem> some_problem(int rows = 9) {
  return make_problem(parse_case("op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact pad=0 x=bf16 rows=" +
                                 std::to_string(rows) + " cols=70 data=normal seed=1"));
}

// The call as the gate makes it; its outcome is read where the child lived.
struct Ran {
  wire::Reply reply;
  bool lived = false;
  Outcome outcome;
};
Ran run(Child& child, const Call& call) {
  const SharedCall shared(call);
  wire::Message message = shared.message();
  message.request = wire::Request::run;
  shared.write(child.memory());
  Ran ran;
  ran.lived = child.ask(message, ran.reply);
  if (ran.lived) shared.read(child.memory(), ran.outcome);
  return ran;
}

TEST(Worker, says_what_the_library_offers_and_ends_when_the_gate_hangs_up) {
  const test::Toy toy("multiples");
  Child child(MXCHECK_TOY);
  const wire::Reply reply = child.describe();
  EXPECT_EQ(reply.status, MXCHECK_OK) << reply.message;
  EXPECT_STREQ(reply.name, "toy");
  EXPECT_EQ(reply.device, kDLCPU);
  ASSERT_EQ(reply.num_operations, 1);
  EXPECT_STREQ(reply.operations[0].name, "quantize");
  EXPECT_STREQ(reply.operations[0].contract, "exact");
  EXPECT_EQ(reply.operations[0].rows_multiple, 48);
  EXPECT_EQ(reply.operations[0].cols_multiple, 80);
  const int status = child.end();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), wire::status_of_end(0));  // the number of the one message
  EXPECT_GE(wire::status_of_end(0), 32);
}

TEST(Worker, says_why_a_library_is_no_candidate) {
  struct Row {
    const char* library;
    const char* mode;
    const char* words;
    int environment = 0;
  };
  for (const Row& row : {Row{"/nowhere/lib.so", "", "cannot be loaded: "},
                         Row{MXCHECK_NO_CANDIDATE, "", "has no function mxcheck_candidate"},
                         Row{MXCHECK_TOY, "no_table", "returned no table from mxcheck_candidate"},
                         Row{MXCHECK_TOY, "elsewhere", "cannot run on this machine: the moon is not full", 1},
                         Row{MXCHECK_TOY, "other_version", "speaks interface version 99"}}) {
    const test::Toy toy(row.mode);
    Child child(row.library);
    const wire::Reply reply = child.describe();
    EXPECT_EQ(reply.status, MXCHECK_FAILED);
    EXPECT_EQ(reply.environment, row.environment);
    EXPECT_NE(std::string(reply.message).find(row.words), std::string::npos) << reply.message;
  }
}

TEST(Worker, asks_the_library_what_it_supports) {
  Child child(MXCHECK_TOY);
  wire::Message message;
  message.request = wire::Request::supports;
  message.questions = 2;
  const Policy policy = some_problem()->call().policy;
  wire::Question questions[2]{on_the_wire({policy, Format::bf16}), on_the_wire({policy, Format::fp32})};
  std::memcpy(child.memory(), questions, sizeof(questions));
  wire::Reply reply;
  ASSERT_TRUE(child.ask(message, reply));
  std::memcpy(questions, child.memory(), sizeof(questions));
  EXPECT_EQ(questions[0].status, MXCHECK_OK);
  EXPECT_EQ(questions[1].status, MXCHECK_UNSUPPORTED);
}

TEST(Worker, runs_calls_on_the_shared_memory) {
  Child child(MXCHECK_TOY);
  struct Row {
    int rows;
    bool guarded;
  };
  // The last: over pages that were inaccessible during the call before.
  for (const Row& row : {Row{9, false}, Row{9, true}, Row{400, false}}) {
    const std::unique_ptr<Problem> problem = some_problem(row.rows);
    Call call = problem->call();
    call.guard_pages = row.guarded;
    const Ran ran = run(child, call);
    ASSERT_TRUE(ran.lived);
    EXPECT_EQ(ran.reply.status, MXCHECK_OK) << ran.reply.message;
    EXPECT_FALSE(ran.outcome.out_of_bounds) << *ran.outcome.out_of_bounds;
    const std::vector<ExpectedTensor> expected = problem->answer();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(ran.outcome.outputs[i], expected[i].bytes) << i;
  }
}

TEST(Worker, passes_a_refusal_on) {
  Child child(MXCHECK_TOY);
  const std::unique_ptr<Problem> problem = some_problem();
  Call call = problem->call();
  --call.outputs[0].shape[0];
  const Ran ran = run(child, call);
  EXPECT_EQ(ran.reply.status, MXCHECK_INVALID);
  EXPECT_STREQ(ran.reply.message, "codes are not rows x cols");
  EXPECT_TRUE(ran.outcome.outputs_untouched);
}

TEST(Worker, an_access_past_a_guarded_tensor_ends_the_process) {
  const test::Toy toy("writes_past");
  Child child(MXCHECK_TOY);
  const std::unique_ptr<Problem> problem = some_problem();
  Call call = problem->call();
  EXPECT_EQ(run(child, call).outcome.out_of_bounds, "past the end of output 0");
  call.guard_pages = true;
  EXPECT_FALSE(run(child, call).lived);
  const int status = child.end();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST(Worker, the_workspace_lies_between_zones_and_may_be_refused) {
  const std::unique_ptr<Problem> problem = some_problem();
  {
    const test::Toy toy("past_its_workspace");
    Child child(MXCHECK_TOY);
    const Ran ran = run(child, problem->call());
    EXPECT_EQ(ran.reply.status, MXCHECK_OK);
    EXPECT_EQ(ran.reply.workspace_broken, 1);
  }
  const test::Toy toy("wants_everything");
  Child child(MXCHECK_TOY);
  const Ran ran = run(child, problem->call());
  EXPECT_EQ(ran.reply.status, MXCHECK_NO_MEMORY);
  EXPECT_STREQ(ran.reply.message, "the gate could not allocate the workspace");
  EXPECT_TRUE(ran.outcome.outputs_untouched);
}

TEST(Worker, needs_all_of_its_arguments) {
  std::string name = "mxcheck";
  char* argument = name.data();
  EXPECT_EQ(run_worker(1, &argument), 2);
}

}  // namespace
}  // namespace mxcheck
