// The probes on the emulation: it is the model, so all agree with it; and a card that answers otherwise is seen to.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "numerics/accumulate/contract.h"
#include "numerics/accumulate/fused_sum.h"
#include "tests/kernels/sm100/probe/golden_words.h"
#include "tests/kernels/sm100/probe/program.h"

namespace mxcheck::sm100::probe {
namespace {

using emulation::sm100::LaunchOptions, emulation::sm100::Schedule;

void expect_all_agree(const LaunchOptions& options) {
  EmulatedLauncher launcher(options);
  for (const Probe& probe : emulated_probes()) {
    const Report report = probe.run(launcher);
    EXPECT_EQ(report.verdict(), Verdict::agrees) << to_table({report});
    EXPECT_FALSE(report.evidence.empty()) << report.number;
    for (const Part& part : report.parts) {
      EXPECT_TRUE(part.verdict == Verdict::agrees || part.verdict == Verdict::refused) << part.answer;
    }
  }
}

TEST(Sm100Probe, all_agree_where_operations_happen_at_once) { expect_all_agree({.schedule = Schedule::eager}); }
TEST(Sm100Probe, all_agree_where_operations_happen_late) { expect_all_agree({.schedule = Schedule::lazy}); }
TEST(Sm100Probe, all_agree_in_a_random_order) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_all_agree({.schedule = Schedule::random, .seed = seed});
}

// The report names every form that the emulation refuses, with its finding.
TEST(Sm100Probe, refused_forms_name_the_finding) {
  EmulatedLauncher launcher;
  const struct {
    int number;
    std::vector<std::string> words;
  } cases[] = {{3, {"multiple of 16 up to 256", "a pair's M of 128 with scales"}},
               {4, {"relative lanes: refused", "lanes of the next warp's quarter: refused", "address"}},
               {5, {"scale_copies: ", "scales of A", "scales of B"}},
               {6, {"descriptor: "}},
               {7, {"barrier: ", "the scope is .cta"}},
               {8, {"not_ordered: "}}};
  for (const auto& c : cases) {
    const Report report = emulated_probes().at(static_cast<std::size_t>(c.number - 1)).run(launcher);
    const std::string text = to_table({report});
    EXPECT_NE(text.find("refused by the emulation: "), std::string::npos) << text;
    for (const std::string& word : c.words) EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

// A card: the emulation, of which some launches end otherwise.
class Card : public Launcher {
 public:
  enum class Fault : std::uint8_t { wrong_word, illegal, hangs, no_memory };
  explicit Card(Fault fault) : fault_(fault) {}
  Outcome run(const Launch& launch) override {
    Outcome outcome = emulation_.run(launch);
    if (outcome.state != Outcome::State::ran) return outcome;
    switch (fault_) {
      case Fault::wrong_word:
        for (std::uint32_t& word : outcome.out) word ^= 1U;
        return outcome;
      case Fault::illegal: return {Outcome::State::faulted, "an illegal instruction", {}};
      case Fault::hangs: return {Outcome::State::hung, "no end within 120 s", {}};
      case Fault::no_memory: return {Outcome::State::failed, "out of memory", {}};
    }
    return outcome;
  }
  [[nodiscard]] std::uint32_t repetitions(std::uint32_t few, std::uint32_t /*many*/) const override { return few; }

 private:
  EmulatedLauncher emulation_;
  Fault fault_;
};

TEST(Sm100Probe, another_answer_a_fault_and_a_hang_disagree) {
  const struct {
    Card::Fault fault;
    Verdict verdict;
    const char* text;
  } cases[] = {{Card::Fault::wrong_word, Verdict::disagrees, "are not the model's"},
               {Card::Fault::illegal, Verdict::disagrees, "an illegal instruction"},
               {Card::Fault::hangs, Verdict::disagrees, "no end within 120 s"},
               {Card::Fault::no_memory, Verdict::undecided, "out of memory"}};
  for (const auto& c : cases) {
    Card card(c.fault);
    for (const Probe& probe : emulated_probes()) {
      // The third's sweep takes most of the time.
      if (probe.number == 3 && c.fault != Card::Fault::wrong_word && c.fault != Card::Fault::illegal) continue;
      const Report report = probe.run(card);
      EXPECT_EQ(report.verdict(), c.verdict) << to_table({report});
      EXPECT_NE(to_table({report}).find(c.text), std::string::npos) << to_table({report});
    }
  }
}

// A card answers what the emulation refuses: its words are looked at, and its faults belong to the answer.
TEST(Sm100Probe, forms_without_a_model_are_answered) {
  class Lenient : public Launcher {
   public:
    Outcome run(const Launch& launch) override {
      Outcome outcome = emulation_.run(launch);
      if (outcome.state != Outcome::State::refused) return outcome;
      if (outcome.out.empty()) return {Outcome::State::faulted, "an illegal instruction", {}};
      outcome.state = Outcome::State::ran;
      return outcome;
    }
    [[nodiscard]] std::uint32_t repetitions(std::uint32_t few, std::uint32_t /*many*/) const override { return few; }

   private:
    EmulatedLauncher emulation_;
  };
  Lenient card;
  const std::string text_of_5 = to_table({emulated_probes().at(4).run(card)});
  EXPECT_NE(text_of_5.find("partitions read, by blocks of 32 x 32 of D: 0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 0 0 0 0"),
            std::string::npos)
      << text_of_5;
  const Report eight = emulated_probes().at(7).run(card);
  EXPECT_EQ(eight.parts.at(1).verdict, Verdict::answered);
  EXPECT_NE(eight.parts.at(1).answer.find("0 of 32768 words wrong"), std::string::npos) << eight.parts.at(1).answer;
  const Report three = emulated_probes().at(2).run(card);
  EXPECT_EQ(three.verdict(), Verdict::agrees);
  EXPECT_NE(to_table({three}).find("a pair, the other multiples of 8: none has the right words"), std::string::npos)
      << to_table({three});
}

// The literals of kernels/sm100/probe are the words of numerics, which a kernel may not include.
TEST(Sm100Probe, golden_words_are_those_of_the_fused_sum) {
  for (const Golden& g : kGoldens) {
    Format format = Format::e4m3;
    const char* contract = "sm100_f8f6f4";
    switch (g.type) {
      case GoldenType::e4m3: break;
      case GoldenType::e5m2: format = Format::e5m2; break;
      case GoldenType::scaled_e4m3: contract = "sm100_mxf8f6f4"; break;
      case GoldenType::bf16: format = Format::bf16, contract = "sm100_f16"; break;
      case GoldenType::fp16: format = Format::fp16, contract = "sm100_f16"; break;
    }
    const GoldenCodes codes = codes_of(g);
    std::vector<Factor> a, b;
    for (const std::uint16_t code : codes.a) a.push_back(factor(format, code));
    for (const std::uint16_t code : codes.b) b.push_back(factor(format, code));
    const StepScales scales{.format = Format::e8m0, .a = {&g.scale_a, 1}, .b = {&g.scale_b, 1}};
    const bool scaled = g.type == GoldenType::scaled_e4m3;
    EXPECT_EQ(hex(fused_sum(contract_named(contract).step, a, b, g.c, scaled ? &scales : nullptr)), hex(g.d))
        << g.name << " of " << contract << " " << g.lanes;
  }
}

// Launches on a card are in processes of their own. Needs none of CUDA.
TEST(Sm100ProbeChild, words_come_back_and_what_breaks_a_child_is_said) {
  using State = Outcome::State;
  constexpr std::chrono::milliseconds kLong(30'000);
  const Outcome ran = in_a_child(kLong, 3, [](Left& left, std::uint32_t* words) {
    words[0] = 5, words[2] = 0xFFFFFFFF;
    leave(left, State::ran, "");
  });
  EXPECT_EQ(ran.state, State::ran);
  EXPECT_EQ(ran.out, (std::vector<std::uint32_t>{5, 0, 0xFFFFFFFF}));
  const Outcome faulted = in_a_child(kLong, 1, [](Left& left, std::uint32_t*) {
    leave(left, State::faulted, std::string("an illegal instruction ").append(1000, 'x'));
  });
  EXPECT_EQ(faulted.state, State::faulted);
  EXPECT_EQ(faulted.text.substr(0, 23), "an illegal instruction ");
  EXPECT_TRUE(faulted.out.empty());
  const Outcome hung = in_a_child(std::chrono::milliseconds(100), 1, [](Left&, std::uint32_t*) {
    for (;;) ::pause();
  });
  EXPECT_EQ(hung.state, State::hung);
  EXPECT_EQ(hung.text, "no end within 100 ms");
  const Outcome crashed = in_a_child(kLong, 1, [](Left&, std::uint32_t*) { ::raise(SIGKILL); });
  EXPECT_EQ(crashed.state, State::failed);
  EXPECT_EQ(crashed.text, "the child process ended by signal 9");
  const Outcome threw = in_a_child(kLong, 1, [](Left&, std::uint32_t*) { throw std::runtime_error("no card"); });
  EXPECT_EQ(threw.state, State::failed);
  EXPECT_EQ(threw.text, "no card");
  EXPECT_EQ(in_a_child(kLong, 1, [](Left&, std::uint32_t*) {}).text, "the child process left nothing");
}

struct Printed {
  int code;
  std::string out, err;
};
Printed run(const std::vector<std::string>& arguments, const CardFunctions* card = nullptr) {
  Printed printed{0, "", ""};
  printed.code = run_program(
      arguments, card, [&](std::string_view text) { printed.out += text; },
      [&](std::string_view text) { printed.err += text; });
  return printed;
}

TEST(Sm100ProbeProgram, the_record_is_json_and_has_all) {
  const std::string file = testing::TempDir() + "sm100_probe_record.json";
  const Printed done = run({"--emulated", "--record", file});
  EXPECT_EQ(done.code, 0) << done.out << done.err;
  std::ifstream stream(file);
  const nlohmann::json record = nlohmann::json::parse(stream);
  EXPECT_EQ(record.at("program"), "mxcheck_sm100_probe");
  EXPECT_EQ(record.at("device"), "emulation");
  ASSERT_EQ(record.at("probes").size(), 11U);
  for (std::size_t i = 0; i < 11; ++i) {
    const nlohmann::json& probe = record.at("probes").at(i);
    EXPECT_EQ(probe.at("number"), i + 1);
    EXPECT_EQ(probe.at("agrees"), "yes");
    EXPECT_FALSE(probe.at("question").get<std::string>().empty());
    EXPECT_FALSE(probe.at("answer").get<std::string>().empty());
    EXPECT_FALSE(probe.at("parts").empty());
    EXPECT_FALSE(probe.at("evidence").empty());
  }
  // Reference words are in it, as the card gave them.
  const auto& words = record.at("probes").at(9).at("evidence");
  EXPECT_TRUE(std::ranges::any_of(words, [](const nlohmann::json& e) {
    return e.at("name") == "kind::mxf8f6f4, E4M3, M11" && e.at("value") == "0xbf7fffff";
  }));
  std::filesystem::remove(file);
}

TEST(Sm100ProbeProgram, text_in_the_record_is_escaped) {
  Report report(1, "a \"question\"\n\\");
  report.add(Verdict::answered, "an\tanswer");
  const nlohmann::json record = nlohmann::json::parse(to_json({report}, "a \"card\""));
  EXPECT_EQ(record.at("probes").at(0).at("question"), "a \"question\"\n\\");
  EXPECT_EQ(record.at("probes").at(0).at("answer"), "an\tanswer");
  EXPECT_EQ(record.at("device"), "a \"card\"");
}

TEST(Sm100ProbeProgram, bad_arguments_say_what_would_be_right) {
  const struct {
    std::vector<std::string> arguments;
    const char* text;
  } cases[] = {{{"--only", "12"}, "1 to 11 is right"},
               {{"--only", "0"}, "1 to 11 is right"},
               {{"--only", "3x"}, "1 to 11 is right"},
               {{"--only"}, "has no value"},
               {{"--repeat", "0"}, "1 to 40 is right"},
               {{"--repeat", "-1"}, "1 to 40 is right"},
               {{"--timeout", "4000"}, "1 to 3600 is right"},
               {{"--record"}, "a file"},
               {{"--record", ""}, "a file"},
               {{"emulated"}, "--emulated are"},
               {{"--emulated", "--recrod", "x"}, "--record"}};
  for (const auto& c : cases) {
    const Printed done = run(c.arguments);
    EXPECT_EQ(done.code, 2) << c.arguments.front();
    EXPECT_NE(done.err.find(c.text), std::string::npos) << done.err;
    EXPECT_TRUE(done.out.empty());
  }
  const Printed record = run({"--emulated", "--only", "2", "--record", testing::TempDir() + "no/such/folder/x.json"});
  EXPECT_EQ(record.code, 2);
  EXPECT_NE(record.err.find("cannot be written"), std::string::npos) << record.err;
}

TEST(Sm100ProbeProgram, without_the_card_it_says_which_is_needed) {
  const Printed without = run({});
  EXPECT_EQ(without.code, 3);
  EXPECT_NE(without.err.find("built without CUDA; this probe needs compute capability 10.0; --emulated runs it on the"),
            std::string::npos)
      << without.err;
  const CardFunctions older{"compute capability 10.0",
                            [] {
                              return CardState{"", "the card is NVIDIA H200, of compute capability 9.0"};
                            },
                            nullptr, nullptr};
  const Printed done = run({"--only", "2"}, &older);
  EXPECT_EQ(done.code, 3);
  EXPECT_NE(done.err.find("NVIDIA H200"), std::string::npos) << done.err;
}

TEST(Sm100ProbeProgram, a_card_that_disagrees_gives_another_exit_code) {
  const CardFunctions card{"compute capability 10.0",
                           [] {
                             return CardState{"a card", ""};
                           },
                           [](unsigned, std::uint32_t) -> std::unique_ptr<Launcher> {
                             return std::make_unique<Card>(Card::Fault::wrong_word);
                           },
                           &emulated_probes};
  const Printed done = run({"--only", "2"}, &card);
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.out.find("on a card"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("agrees with the model: no\n"), std::string::npos) << done.out;
}

}  // namespace
}  // namespace mxcheck::sm100::probe
