#pragma once
// The GPUs of this host, for the runs of one process: the next run goes to the GPU with the fewest.
//
//   const auto gpus = std::make_shared<TrainingGpus>(visible_gpus());
//   device_engine(config, library, 64, 0, gpus);   // has its GPU until it is destroyed
//
// CUDA_VISIBLE_DEVICES says which GPUs CUDA shows a process. Not promised: that runs are spread by their length; a run
// stays where it began.

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace mxcheck {

// The host's GPUs, by CUDA's numbers: how many; what makes one of them the current one of the calling thread, and its
// name, for Error{environment}.
struct HostGpus {
  int count = 0;
  std::function<void(int)> bind;
  std::function<std::string(int)> name;
};
// By the CUDA driver; none where there is no driver.
HostGpus visible_gpus();

class TrainingGpus {
 public:
  explicit TrainingGpus(HostGpus host);

  // True if there is something to deal; with one GPU, or none, nothing is bound.
  [[nodiscard]] bool are_several() const { return host_.count > 1; }
  [[nodiscard]] int count() const { return host_.count; }
  // The number of the GPU with the fewest runs, of equal ones the first. Any thread may call these two.
  int take();
  void give_back(int gpu);
  void bind(int gpu) const { host_.bind(gpu); }
  [[nodiscard]] std::string name(int gpu) const { return host_.name(gpu); }

 private:
  HostGpus host_;
  std::mutex mutex_;
  std::vector<int> runs_;  // of each GPU
};

}  // namespace mxcheck
