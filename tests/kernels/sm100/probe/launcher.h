#pragma once
// A probe as it is seen from outside: where its kernels run, on a card or on the CPU, of which it sees neither; what
// comes of a launch; and the report: a question that the documents leave open, the answer, what was measured, and
// whether the emulation's model of the card says the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mxcheck::sm100::probe {

// --- reports
// The report of a probe: a question that the documents leave open, the answer, what was measured, and whether the
// emulation's model of the card says the same.

// The verdict on a part of a probe, and on the whole.
//   agrees     a form that the model has, with the model's words
//   disagrees  a form that the model has, with other words, a fault, or no end
//   undecided  it could not be run
//   answered   a form that the emulation refuses: there is no model to agree with, and the answer is the text
//   refused    by the emulation, which has a finding for it
enum class Verdict : std::uint8_t { agrees, disagrees, undecided, answered, refused };

// "yes", "no", "not decided", "the model has no answer", "refused by the emulation"
std::string_view text_of(Verdict verdict);

struct Part {
  Verdict verdict;
  std::string answer;
};

struct Evidence {
  std::string name;
  std::string value;  // counts, or words in hexadecimal
};

class Report {
 public:
  Report(int of_number, std::string of_question) : number(of_number), question(std::move(of_question)) {}

  void add(Verdict verdict, std::string answer) { parts.push_back({verdict, std::move(answer)}); }
  void add_evidence(std::string name, std::string value) { evidence.push_back({std::move(name), std::move(value)}); }
  // The worst part's verdict; parts without a model count where there is no other.
  [[nodiscard]] Verdict verdict() const;

  int number;
  std::string question;
  std::vector<Part> parts;
  std::vector<Evidence> evidence;
  double seconds = 0;
};

std::string hex(std::uint32_t word);                                         // "0x3f800000"
std::string counts(std::size_t some, std::size_t all, std::string_view of);  // "3 of 8 words"

// The record: JSON. `device` is the card's name, or "emulation".
std::string to_json(const std::vector<Report>& reports, std::string_view device);
std::string to_table(const std::vector<Report>& reports);

// --- launches

inline constexpr unsigned kThreads = 128;  // of every CTA: four warps, one for each quarter of tensor memory's lanes

// The arguments of every kernel. Pointers are into memory that the kernel reaches.
struct Arguments {
  const std::uint32_t* image = nullptr;  // of shared memory: image_bytes for each rank of the cluster
  const std::uint32_t* words = nullptr;  // what the probe's header says
  std::uint32_t* out = nullptr;          // zeros before
  std::uint64_t a_extra = 0;             // added to A's descriptor
  std::uint32_t image_bytes = 0;
  std::uint32_t instruction = 0;  // its descriptor
  std::uint32_t count = 1;        // of repetitions
  std::uint32_t variant = 0;      // what the probe's header says
  std::uint32_t columns = 0;      // of D
  const void* engine = nullptr;   // of emulation/on_sm90: its Launch
};
using Kernel = void (*)(Arguments);

struct Launch {
  Kernel kernel = nullptr;
  unsigned blocks = 1, cluster = 1;
  std::size_t shared_bytes = 0;
  Arguments arguments;                // its pointers and image_bytes come from the launcher
  std::vector<std::uint8_t> image{};  // of all ranks
  std::vector<std::uint32_t> words{};
  std::size_t out_words = 0;
  unsigned patience = 1;  // times the time that a launch may take
};

struct Outcome {
  enum class State : std::uint8_t {
    ran,
    refused,  // by the emulation: it has findings. `out` is there if the run came to its end
    faulted,  // illegal instruction or address, misaligned
    hung,     // no end in time
    failed    // it could not be run
  };
  State state = State::failed;
  std::string text;  // of everything but `ran`
  std::vector<std::uint32_t> out;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual Outcome run(const Launch& launch) = 0;
  // How often a loop that the emulation runs `few` times runs here.
  [[nodiscard]] virtual std::uint32_t repetitions(std::uint32_t few, std::uint32_t many) const = 0;
};

struct Probe {
  int number;
  Report (*run)(Launcher&);
};
inline constexpr int kProbes = 11;

// The same eleven, compiled for either.
std::vector<Probe> emulated_probes();
std::vector<Probe> device_probes();

// --- from outcomes to verdicts

// Judges a form that the model has: `wrong` of `all` words differ from the model's.
inline Verdict expect_model(Report& report, const std::string& what, const Outcome& outcome, std::size_t wrong,
                            std::size_t all) {
  Verdict verdict = Verdict::agrees;
  std::string text;
  switch (outcome.state) {
    case Outcome::State::ran:
      verdict = wrong == 0 ? Verdict::agrees : Verdict::disagrees;
      text = wrong == 0 ? "as the model has it" : counts(wrong, all, "are not the model's");
      break;
    // The model and the emulation's rules contradict each other.
    case Outcome::State::refused:
      verdict = Verdict::disagrees;
      text = "refused by the emulation: " + outcome.text;
      break;
    case Outcome::State::faulted:
    case Outcome::State::hung:
      verdict = Verdict::disagrees;
      text = outcome.text;
      break;
    case Outcome::State::failed:
      verdict = Verdict::undecided;
      text = outcome.text;
      break;
  }
  report.add(verdict, what + ": " + text);
  return verdict;
}

// The text `words`, which is what the words say, or the reason why there are none.
inline std::string words_or_reason(const Outcome& outcome, const std::string& words) {
  return outcome.out.empty() ? outcome.text : words;
}

// Reports on a form that the emulation refuses: `answer` is what the words say, where there are any.
inline void ask(Report& report, const std::string& what, const Outcome& outcome, const std::string& answer) {
  switch (outcome.state) {
    case Outcome::State::ran: return report.add(Verdict::answered, what + ": " + answer);
    case Outcome::State::refused:
      return report.add(Verdict::refused, what + ": refused by the emulation: " + outcome.text);
    case Outcome::State::faulted:
    case Outcome::State::hung: return report.add(Verdict::answered, what + ": " + outcome.text);
    case Outcome::State::failed: return report.add(Verdict::undecided, what + ": " + outcome.text);
  }
}

}  // namespace mxcheck::sm100::probe
