// mxcheck parallel layer, as its users run it: with its own launcher, with the variables of another one, on the host
// and on GPUs of a driver of host memory.

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/command.h"

namespace mxcheck::test {
namespace {

class Parallel : public ToolTest {
 protected:
  Answer layer(const std::string& arguments, const std::string& before = "") {
    return mxcheck("parallel layer " + arguments, "unset RANK WORLD_SIZE; export MALLOC_PERTURB_=165; " +
                                                      before);  // memory that is not written is no zero
  }
  // The lines of the outputs: names and digests.
  std::string outputs(const std::string& arguments, const std::string& before = "") {
    const Answer answer = layer(arguments, before);
    EXPECT_EQ(answer.code, 0) << arguments << "\n" << answer.out << answer.err;
    const std::size_t at = answer.out.find("output  digest");
    return at == std::string::npos ? answer.out : answer.out.substr(at, answer.out.find("\n\n", at) - at);
  }
  void expect_same_bits(const std::string& layer_options) {
    const std::string one = outputs(layer_options + " --ranks 1");
    for (const char* ranks : {"--ranks 2 --placement strided", "--ranks 3 --placement seed:5 --chunks 3",
                              "--ranks 4 --placement one", "--ranks 7 --placement contiguous --chunks 2"}) {
      EXPECT_EQ(outputs(layer_options + " " + ranks), one) << layer_options << " " << ranks;
    }
  }
  // A rank with the variables of torchrun.
  Answer rank(int number, int ranks, int port, const std::string& arguments) {
    return mxcheck("parallel layer " + arguments, "export MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port) +
                                                      " WORLD_SIZE=" + std::to_string(ranks) +
                                                      " RANK=" + std::to_string(number) + "; ");
  }
};

// A port that no other test of this machine has, most likely.
int some_port() { return 20000 + static_cast<int>(std::hash<std::string>()(TemporaryDirectory().path()) % 10000); }

const std::string kFake = MXCHECK_FAKE_CUDA;
const std::string kOnGpu = "--engine " + kFake + "/libfake_layer.so ";
const std::string kGpu = "export FAKE_GPUS=4 LD_LIBRARY_PATH=" + kFake +
                         " REFERENCE='operations=moe_forward,moe_backward,aggregate,quantize,dequantize'; ";

// ---- The statement ----

TEST_F(Parallel, neither_ranks_nor_placement_nor_chunks_change_a_bit) {
  for (const char* recipe : {"bf16", "mxfp8", "dsv3", "dsv3_pow2", "dsv3_128x128_grad"}) {
    expect_same_bits(std::string("--tokens 150 --experts 6 --recipe ") + recipe);
  }
}

TEST_F(Parallel, nor_do_they_where_x_travels_in_fp8) {
  for (const char* recipe : {"bf16", "dsv3_pow2"}) {
    expect_same_bits(std::string("--dispatch fp8 --recipe ") + recipe);
  }
  EXPECT_NE(outputs("--dispatch fp8"), outputs("--dispatch bf16"));
}

TEST_F(Parallel, nor_do_they_where_routes_are_dropped_and_ranks_are_empty) {
  expect_same_bits("--capacity 11 --load skewed");
  expect_same_bits("--load one --top-k 1 --gate-up interleaved");
  expect_same_bits("--tokens 2 --experts 3");
  expect_same_bits("--tokens 0");
  expect_same_bits("--width 136 --inner 72 --experts 5 --top-k 5");
}

TEST_F(Parallel, random_placements_on_random_numbers_of_ranks_have_the_bits_of_one_call) {
  for (int seed = 1; seed <= 12; ++seed) {
    const std::string n = std::to_string(seed);
    const Answer answer =
        layer("--seed " + n + " --placement seed:" + n + " --ranks " + std::to_string(1 + seed % 5) + " --tokens " +
              std::to_string(7 * seed) + " --experts " + std::to_string(3 + seed) + " --top-k " +
              std::to_string(1 + seed % 3) + " --chunks " + std::to_string(1 + seed % 4) + " --width 64 --inner 64");
    EXPECT_EQ(answer.code, 0) << n << answer.out << answer.err;
    for (const char* name : {"O ", "dX ", "dW1 ", "dW2 ", "dS "}) expect_contains(answer.out, std::string("\n") + name);
    EXPECT_EQ(answer.out.find("DIFFERS"), std::string::npos) << answer.out;
  }
}

TEST_F(Parallel, a_library_whose_layer_is_not_the_sum_of_its_experts_is_found) {
  const Answer answer = layer("--ranks 2 --engine " MXCHECK_SUMS_IN_BF16 "," MXCHECK_REFERENCE_CANDIDATE " --top-k 4");
  EXPECT_EQ(answer.code, 1) << answer.err;
  expect_contains(answer.out, {"DIFFERS on rank 0, 1", "dW1 "});
}

// ---- GPUs ----

TEST_F(Parallel, gpus_by_nccl_have_the_bits_of_the_host) {
  const std::string options = "--tokens 90 --experts 5 --recipe dsv3 --dispatch fp8 ";
  const std::string host = outputs(options);
  const std::string nccl = " --nccl " + kFake + "/libfake_nccl.so";
  for (const int ranks : {1, 2, 4}) {
    const std::string n = " --ranks " + std::to_string(ranks);
    EXPECT_EQ(outputs(options + kOnGpu + nccl + n + " --transport nccl --chunks 2 --placement seed:3", kGpu), host);
  }
  EXPECT_EQ(outputs(options + kOnGpu + " --one-gpu --ranks 3 --chunks 2", kGpu), host);
}

TEST_F(Parallel, memory_of_peers_gives_the_same_bits) {
  const std::string options = "--tokens 90 --experts 5 --recipe dsv3 --dispatch fp8 --transport ";
  const std::string sockets = outputs(options + "sockets --samples 2");
  for (const int ranks : {1, 2, 5}) {
    const std::string n = " --chunks 2 --placement seed:3 --samples 2 --ranks " + std::to_string(ranks);
    EXPECT_EQ(outputs(options + "peer" + n), sockets);
    if (ranks < 5) {
      EXPECT_EQ(outputs(options + "peer" + n + " " + kOnGpu, kGpu), sockets);
    }
  }
}

TEST_F(Parallel, gpus_take_memory_of_peers_and_nccl_where_there_is_none) {
  const std::string options = "--ranks 2 --nccl " + kFake + "/libfake_nccl.so " + kOnGpu;
  expect_contains(layer(options, kGpu).out, "2 ranks by mxcheck; peer; fake_layer 1\n");
  const std::string none = kGpu + "export FAKE_NO_IPC=1; ";
  expect_contains(layer(options, none).out, "2 ranks by mxcheck; nccl 2.27.3; fake_layer 1\n");
  const Answer refused = layer(options + " --transport peer", none);
  EXPECT_EQ(refused.code, 3);
  expect_contains(refused.err, {"rank 0 cannot show its memory: cuIpcGetMemHandle: ", "; use --transport nccl"});
  const Answer shared = layer(options + " --transport peer --one-gpu", kGpu);
  EXPECT_EQ(shared.code, 2);
  expect_contains(shared.err, "--transport peer needs a GPU for each rank: leave out --one-gpu");
}

TEST_F(Parallel, times_are_those_of_both_parts_alone_and_together) {
  const Answer answer = layer(
      "--ranks 2 --chunks 2 --samples 2 --link 450 --transport nccl --nccl " + kFake + "/libfake_nccl.so " + kOnGpu,
      kGpu);
  EXPECT_EQ(answer.code, 0) << answer.err;
  expect_contains(answer.out, {"2 ranks by mxcheck; nccl 2.27.3; fake_layer 1\n",
                               "together ms  transfers  compute  hidden", " of 450 GB/s"});
}

TEST_F(Parallel, a_machine_without_nccl_is_refused_by_its_name) {
  const Answer answer = layer("--ranks 2 --transport nccl --nccl /nowhere/libnccl.so.2 " + kOnGpu, kGpu);
  EXPECT_EQ(answer.code, 3);
  EXPECT_EQ(answer.out, "");
  expect_contains(answer.err, "NCCL cannot be loaded: /nowhere/libnccl.so.2");
  EXPECT_EQ(layer("--ranks 2 " + kOnGpu, kGpu + "export FAKE_NO_IPC=1 MXCHECK_NCCL=/nowhere/libnccl.so.2; ").code, 3);
}

TEST_F(Parallel, more_ranks_than_gpus_are_refused) {
  const Answer answer = layer("--ranks 3 " + kOnGpu, kGpu + "export CUDA_VISIBLE_DEVICES=0,1; ");
  EXPECT_EQ(answer.code, 3);
  expect_contains(answer.err, "rank 2 of this host has no GPU: CUDA_VISIBLE_DEVICES is 0,1");
  const Answer fewer = layer("--ranks 2 --nccl " + kFake + "/libfake_nccl.so " + kOnGpu, kGpu + "export FAKE_GPUS=1; ");
  EXPECT_EQ(fewer.code, 3);
  expect_contains(fewer.err, "GPU 1: there is no CUDA device; each rank of a host needs a GPU, or --one-gpu for all");
}

// ---- Ranks of another launcher, and what goes wrong ----

TEST_F(Parallel, ranks_of_another_launcher_meet) {
  const int port = some_port();
  Answer second;
  std::thread other([&] { second = rank(1, 2, port, "--recipe mxfp8"); });
  const Answer first = rank(0, 2, port, "--recipe mxfp8");
  other.join();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  expect_contains(first.out, {"2 ranks by torchrun; sockets; reference", "dW2"});
  EXPECT_EQ(second.out, "");
}

TEST_F(Parallel, ranks_that_differ_are_named_before_the_first_step) {
  const struct {
    const char* options;
    const char* difference;
  } cases[] = {
      {"--experts 16",
       "rank 1 differs in shape (--tokens, --width, --inner, --experts, --top-k): 64, 128, 128, 16, 2, and rank 0 has "
       "64, 128, 128, 8, 2"},
      {"--recipe dsv3", "rank 1 differs in recipe: dsv3 halves, and rank 0 has bf16 halves"},
      {"--seed 2", "rank 1 differs in routes (--load, --capacity, --seed): random, 0, 2, and rank 0 has random, 0, 1"},
      {"--placement strided", "rank 1 differs in placement of experts"},
      {"--engine " MXCHECK_REFERENCE_CANDIDATE, "rank 1 differs in library: reference 1, and rank 0 has reference"},
  };
  for (const auto& c : cases) {
    const int port = some_port();
    Answer second;
    std::thread other([&] { second = rank(1, 2, port, c.options); });
    const Answer first = rank(0, 2, port, "");
    other.join();
    for (const Answer& answer : {first, second}) {
      EXPECT_EQ(answer.code, 2) << c.options << answer.err;
      EXPECT_EQ(answer.out, "");
      expect_contains(answer.err, c.difference);
    }
  }
}

TEST_F(Parallel, a_missing_rank_is_named) {
  const int port = some_port();
  const Answer answer = rank(0, 3, port, "--timeout 0.5");
  EXPECT_EQ(answer.code, 6);
  EXPECT_EQ(answer.err,
            "mxcheck: error: ranks 1 and 2 of 3 did not reach 127.0.0.1:" + std::to_string(port) + " within 0.5 s\n");
  EXPECT_EQ(rank(1, 3, port, "--timeout 0.5").code, 6);
}

TEST_F(Parallel, a_slow_rank_is_named) {
  const Answer answer = layer("--ranks 3 --delay 1:0.7 --slow 0.5");
  EXPECT_EQ(answer.code, 0) << answer.err;
  expect_contains(answer.out, "rank 1 is slow: it reached 'backward 0' ");
}

TEST_F(Parallel, a_rank_that_does_not_arrive_is_named_and_no_process_hangs) {
  const Answer answer = layer("--ranks 3 --delay 2:6 --timeout 2");
  EXPECT_EQ(answer.code, 6);
  EXPECT_EQ(answer.out, "");
  expect_contains(answer.err, "rank 2 did not reach 'backward 0' within 2 s of rank ");
}

TEST_F(Parallel, nor_do_they_where_memory_of_peers_is_waited_for) {
  for (const std::string& engine : {std::string(), kOnGpu}) {
    const Answer answer = layer("--ranks 3 --transport peer --delay 2:6 --timeout 2 " + engine, kGpu);
    EXPECT_EQ(answer.code, 6);
    expect_contains(answer.err, "rank 2 did not reach 'backward 0' within 2 s of rank ");
  }
}

// Each token goes once to the other rank, also where all experts are there; a row a slot comes back.
TEST_F(Parallel, a_token_travels_once_to_a_rank) {
  const Answer answer =
      layer("--ranks 2 --placement one --tokens 64 --width 128 --experts 8 --top-k 4 --chunks 3 --json");
  EXPECT_EQ(answer.code, 0) << answer.err;
  const std::string dispatch = std::to_string(32 * 256), combine = std::to_string(32 * 4 * 256);
  expect_contains(answer.out, {"\"sent_forward\": " + dispatch, "\"sent_forward\": " + combine});
}

TEST_F(Parallel, a_rank_that_ends_is_named_and_no_process_hangs) {
  const int port = some_port();
  std::vector<Answer> answers(3);
  std::vector<std::thread> others;
  for (const int r : {1, 2}) {
    others.emplace_back([&, r] {
      answers[static_cast<std::size_t>(r)] =
          r == 2
              ? mxcheck("parallel layer --delay 2:30 & sleep 3; kill -9 $!; exit 137",
                        "export MASTER_ADDR=127.0.0.1 WORLD_SIZE=3 RANK=2 MASTER_PORT=" + std::to_string(port) + "; ")
              : rank(r, 3, port, "--delay 2:30");
    });
  }
  answers[0] = rank(0, 3, port, "--delay 2:30");
  for (std::thread& t : others) t.join();
  for (const std::size_t r : {0U, 1U}) {
    EXPECT_EQ(answers[r].code, 6);
    expect_contains(answers[r].err, "rank 2 ended before it had finished 'backward 0'");
  }
}

// Killed in the middle of its passes, where the others wait for words in their memory.
TEST_F(Parallel, a_rank_that_is_killed_is_named_where_memory_of_peers_is_waited_for) {
  for (const std::string& engine : {std::string(), kOnGpu}) {
    const std::string before =
        kGpu + "export MASTER_ADDR=127.0.0.1 WORLD_SIZE=3 MASTER_PORT=" + std::to_string(some_port()) + "; ";
    const std::string arguments = "parallel layer --transport peer --samples 1000 --chunks 2 --against none " + engine;
    std::vector<Answer> answers(3);
    std::vector<std::thread> ranks;
    for (std::size_t r = 0; r < 3; ++r) {
      ranks.emplace_back([&, r] {
        const std::string killed = r == 2 ? " & sleep 3; kill -9 $!; exit 137" : "";
        answers[r] = mxcheck(arguments + killed, before + "export RANK=" + std::to_string(r) + "; ");
      });
    }
    for (std::thread& t : ranks) t.join();
    for (const std::size_t r : {0U, 1U}) {
      EXPECT_EQ(answers[r].code, 6) << answers[r].out;
      expect_contains(answers[r].err, "rank 2 ended ");
    }
  }
}

// Our launcher alone gets the signal; the second rank sleeps for longer than the test may take.
TEST_F(Parallel, a_signal_to_the_launcher_ends_its_ranks) {
  for (const int signal : {15, 1}) {  // jobs of a shell ignore SIGINT
    const auto begin = std::chrono::steady_clock::now();
    const Answer answer = layer(
        "--ranks 2 --delay 1:60 & pid=$!; "
        "until pgrep -P $pid mxcheck > /dev/null; do sleep 0.02; done; sleep 0.3; kill -" +
        std::to_string(signal) + " $pid; wait $pid; exit $?");
    EXPECT_EQ(answer.code, 128 + signal) << answer.err;
    EXPECT_EQ(answer.err,
              "mxcheck: signal " + std::to_string(signal) + " (" + strsignal(signal) + ") ended the ranks\n");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  }
}

// ---- The command line ----

TEST_F(Parallel, bad_options_are_refused_before_any_process_starts) {
  expect_refused(2, "--recipe nvfp4: its random words are by the number of a row", "parallel layer --recipe nvfp4");
  expect_refused(2, "--recipe fp8_tensor: has a scale of a whole tensor", "parallel layer --recipe fp8_tensor");
  expect_refused(2, "--width and --inner must be multiples of 8", "parallel layer --width 100");
  expect_refused(2, "--top-k 9 is more than the 8 experts", "parallel layer --top-k 9");
  expect_refused(2, "placement '0,1' has 2 ranks: there are 8 experts", "parallel layer --ranks 2 --placement 0,1");
  expect_refused(2, "--timeout must be from 0.1 to 86400 seconds", "parallel layer --timeout 0");
  expect_refused(2, "--delay x: RANK:SECONDS is needed, as 1:0.5", "parallel layer --delay x");
  expect_refused(2, "WORLD_SIZE is '': must be from 1 to 4096", "parallel layer", "unset WORLD_SIZE; export RANK=1; ");
  expect_refused(2, "--transport nccl moves rows of GPUs", "parallel layer --transport nccl");
}

TEST_F(Parallel, the_answer_in_json_has_ranks_outputs_and_passes) {
  const Answer answer = layer("--ranks 2 --json");
  EXPECT_EQ(answer.code, 0);
  expect_contains(answer.out,
                  {"\"outputs\"", "\"differs_on_ranks\": []", "\"equal\": true", "\"transport\": \"sockets\""});
}

}  // namespace
}  // namespace mxcheck::test
