#pragma once
// A run of training on the current device: what kernels/train.h offers, in C++.
//
// Errors: Refusal; after DEVICE_ERROR the engine is only to be destroyed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/sm90/train/train_device.h"
#include "kernels/sm90/train/train_passes.h"
#include "kernels/train.h"

namespace mxcheck_kernels::sm90 {

class Engine {
 public:
  explicit Engine(const mxcheck_train_config& config);
  ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // -1 for no parameter.
  [[nodiscard]] std::int64_t parameter_size(std::int64_t parameter) const;
  void set_parameter(std::int64_t parameter, const float* weights, const float* first, const float* second);
  void get_parameter(std::int64_t parameter, float* weights, float* first, float* second);
  void step(const mxcheck_train_step& input, mxcheck_train_outcome& outcome);
  void evaluate(mxcheck_train_evaluation& evaluation);
  // mxcheck_train_table's read.
  void read(const std::string& name, void* data, std::uint64_t& bytes);

 private:
  // Makes a table, on the device, of tensors in one allocation.
  TensorTable make_table(const std::string& name, const std::vector<Parameter>& tensors);
  void make_norm_tables();
  void make_state();
  void make_evaluation();
  void make_observed();
  [[nodiscard]] ExpertsBytes bytes_of_layers(const PassShape& shape, bool backward) const;
  struct EvaluationPass;
  EvaluationPass& evaluation_pass(const std::string& recipe, std::int64_t sequences);

  void enqueue_step(std::uint64_t step, bool observe);
  void launch_step(std::uint64_t step, bool observe);
  Pass pass_of(std::uint64_t random_step, bool observe);
  void enqueue_pass(std::uint64_t random_step, bool observe);
  [[nodiscard]] bool has_graph(bool observe) const;
  // A step of several microbatches (train_microbatches.cc).
  void make_microbatches();
  void launch_microbatches(std::uint64_t step, bool observe);
  void launch_microbatch(std::int64_t index, std::uint64_t step, bool observe);
  void end_microbatch(std::int64_t index);
  void exchange_gradients();
  void gather_results();
  void add_layer_digests(std::span<unsigned long long> layers) const;
  [[nodiscard]] bool has_parts() const { return model_.config.microbatches > 1; }
  [[nodiscard]] std::int64_t own_microbatches() const { return model_.config.microbatches / model_.config.ranks; }
  [[nodiscard]] StepEndJob losses_of(const Pass& pass) const;
  void enqueue_loss(const Pass& pass, bool gradient);
  void enqueue_norm(StepEndJob job, bool has_gradients);
  void enqueue_update();
  void enqueue_evaluation(EvaluationPass& pass);
  void fetch_result();
  [[nodiscard]] const Parameter& parameter_at(std::int64_t parameter) const;

  Buffers buffers_;  // ends after the stream does
  Model model_;
  OwnStream own_stream_;
  cudaStream_t stream_ = nullptr;  // that one
  SideStream side_;
  float* first_moments_ = nullptr;
  float* second_moments_ = nullptr;
  StepInput* input_ = nullptr;
  StepResult* result_ = nullptr;
  std::vector<TensorTable> tables_;        // parameters, then what each round of sums leaves of them
  std::vector<float*> sums_;               // of each round
  TensorTable layer_table_;                // the residual stream after each layer
  unsigned long long* digests_ = nullptr;  // of all parameters, then of the layers' outputs

  // The host's side of a step: the step's graph reads the first two.
  Pinned<StepInput> staged_input_;
  Pinned<std::uint8_t> staged_tokens_;
  Pinned<StepResult> found_;
  Pinned<unsigned long long> found_digests_;
  Pinned<mxcheck_device_report> found_report_;
  Graph graph_;
  bool launched_ = false;  // once without the graph: kernels are loaded then, and plans are made

  PassShape shape_;
  Activations activations_;
  BackwardTensors backward_;
  ExpertsPlans plans_;
  std::vector<ObservedTensors> observed_;  // from the first step that is observed

  // State of several microbatches. Their graph is of the pass of one.
  std::uint8_t* own_tokens_ = nullptr;         // of all of this rank's
  std::vector<float*> pending_;                // by level, the sum of a subtree that waits for the one before it
  MicrobatchResult* parts_ = nullptr;          // of all
  float* slices_ = nullptr;                    // of every rank's sum the slice that this rank adds up
  unsigned long long* all_digests_ = nullptr;  // of each rank's layers
  Pinned<unsigned long long> found_layer_digests_;

  // A forward pass alone of one recipe over so many sequences: a CUDA graph, like a step, from the second time on.
  struct EvaluationPass {
    std::string recipe;
    PassShape shape;  // its recipe is the text above
    ExpertsPlans plans;
    Pinned<std::int64_t> token_end;
    Graph graph;
    bool launched = false;
  };
  Activations evaluation_;
  Pinned<std::uint8_t> evaluation_tokens_;
  Pinned<std::int32_t> found_routes_;  // of each layer, as mxcheck_train_evaluation has them
  std::vector<std::unique_ptr<EvaluationPass>> evaluation_passes_;  // last used first
};

}  // namespace mxcheck_kernels::sm90
