#include "tools/recipes/tensor_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "reference/common/parallel.h"
#include "tools/common/matrix_panels.h"
#include "tools/common/panel_quantizer.h"
#include "tools/common/text.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kElements = 1 << 19;  // of a panel: what a core works on, within its caches

// Parts that threads finish in any order, taken in the order of their numbers.
template <class Part>
class InOrder {
 public:
  template <class Take>
  void add(std::size_t number, Part part, const Take& take) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(number, std::move(part));
    for (; !waiting_.empty() && waiting_.begin()->first == next_; ++next_) {
      take(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, Part> waiting_;
  std::size_t next_ = 0;
};

// One recipe on the tensor.
struct Line {
  Line(Format source, const Combination& what)
      : quantizer(source, what.format, what.block, what.recipe),
        meter(what.format, what.block, what.recipe),
        block(what.block) {}

  void quantize_panel(const MatrixView& panel, Quantized& q) const {
    std::vector<std::int64_t> starts = block_row_starts(panel.rows, block.rows, {});
    for (std::int64_t& start : starts) start += panel.first_row;
    const auto number = static_cast<std::size_t>(panel.first_row / block.height(panel.rows));
    quantizer.quantize(panel, starts, number, {}, 1, q);
  }

  // One panel's median is close to the tensor's, as a rule.
  void expect_median_of(const MatrixView& panel, Quantized& q) {
    quantize_panel(panel, q);
    StudyMeter sample = meter;
    do {
      sample.add(sample.measure(panel, q));
    } while (!sample.finish_pass());
    meter.expect_median(sample.study().error.median_relative);
  }

  PanelQuantizer quantizer;
  StudyMeter meter;
  BlockShape block;
  bool is_complete = false;
};

class TensorStudy {
 public:
  TensorStudy(const MatrixInput& input, const std::vector<Combination>& all, int threads, Progress& progress)
      : matrix_(input), head_(matrix_.head()), threads_(thread_count(threads)), progress_(progress) {
    check_has_elements(head_.rows, head_.cols);
    std::int64_t height = 1;  // of which every panel but the last is a multiple
    for (const Combination& what : all) {
      lines_.emplace_back(head_.dtype, what);
      height = std::lcm(height, what.block.height(head_.rows));
    }
    panel_rows_ = std::max<std::int64_t>(1, kElements / head_.cols / height) * height;
    if (head_.dtype == Format::bf16) bf16_.expect_median(0);
  }

  void run() {
    for (int pass = 1;; ++pass) {
      one_pass(pass);
      if (finish_pass()) return;
      matrix_.rewind();
    }
  }

  void write_to(TensorReport& report) const {
    report.dtype = head_.dtype, report.rows = head_.rows, report.cols = head_.cols;
    report.facts = facts_;
    report.bf16 = bf16_.measures();
    for (std::size_t i = 0; i < lines_.size(); ++i) report.lines[i].study = lines_[i].meter.study();
  }

 private:
  bool finish_pass() {
    bf16_is_complete_ = bf16_is_complete_ || bf16_.finish_pass();
    bool all = bf16_is_complete_;
    for (Line& line : lines_) {
      line.is_complete = line.is_complete || line.meter.finish_pass();
      all = all && line.is_complete;
    }
    return all;
  }

  void one_pass(int pass) {
    std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads_));
    for (std::int64_t row = 0; row < head_.rows;) {
      std::vector<MatrixView> panels;
      for (std::size_t i = 0; i < buffers.size() && row < head_.rows; ++i) {
        const std::int64_t rows = std::min(panel_rows_, head_.rows - row);
        panels.push_back(matrix_.next(rows, buffers[i]));
        row += rows;
      }
      if (pass == 1 && row > panel_rows_ && panels[0].first_row == 0) expect_medians(panels[0]);
      measure(panels);
      progress_.now(fmt::format("pass {} over {} x {}", pass, head_.rows, head_.cols),
                    static_cast<double>(row) / static_cast<double>(head_.rows));
    }
  }

  void expect_medians(const MatrixView& panel) {
    const auto count = static_cast<std::int64_t>(lines_.size());
    parallel_ranges(count, count * kElements, static_cast<int>(threads_), [&](std::int64_t begin, std::int64_t end) {
      Quantized q;
      for (std::int64_t i = begin; i < end; ++i) lines_[static_cast<std::size_t>(i)].expect_median_of(panel, q);
    });
  }

  // What is not complete, on some panels: each thread takes what is next, a recipe's panels one after the other.
  void measure(const std::vector<MatrixView>& panels) {
    std::vector<Line*> lines;
    for (Line& line : lines_) {
      if (!line.is_complete) lines.push_back(&line);
    }
    std::vector<InOrder<StudyMeter::Part>> parts(lines.size());
    InOrder<ErrorMeter::Part> bf16;
    InOrder<InputFacts> facts;
    const std::size_t count = (lines.size() + (bf16_is_complete_ ? 0 : 1)) * panels.size();
    std::atomic<std::size_t> next{0};
    const auto work = [&](std::int64_t, std::int64_t) {
      Quantized q;
      for (std::size_t i = next++; i < count; i = next++) {
        const std::size_t of = i / panels.size(), number = i % panels.size();
        const MatrixView& panel = panels[number];
        if (of == lines.size()) {
          if (bf16_.is_first_pass()) facts.add(number, input_facts(panel), [&](const auto& f) { facts_.add(f); });
          bf16.add(number, measure_bf16(bf16_, panel), [&](const auto& part) { bf16_.add(part); });
          continue;
        }
        Line& line = *lines[of];
        line.quantize_panel(panel, q);
        parts[of].add(number, line.meter.measure(panel, q), [&](const auto& part) { line.meter.add(part); });
      }
    };
    parallel_ranges(threads_, static_cast<std::int64_t>(count) * kElements, static_cast<int>(threads_), work);
  }

  MatrixPanels matrix_;
  MatrixHead head_;
  std::int64_t threads_;
  Progress& progress_;
  std::vector<Line> lines_;
  std::int64_t panel_rows_ = 1;
  ErrorMeter bf16_;
  bool bf16_is_complete_ = false;
  InputFacts facts_;
};

}  // namespace

TensorReport study_tensor(const MatrixInput& input, const std::vector<Combination>& all, int threads,
                          Progress& progress) {
  TensorReport report;
  for (const Combination& what : all) report.lines.push_back({what, {}});
  in_place_of_input(input.location, input.location, [&] {
    TensorStudy study(input, all, threads, progress);
    study.run();
    study.write_to(report);
  });
  return report;
}

}  // namespace mxcheck
