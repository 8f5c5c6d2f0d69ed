// The C boundary of kernels/train.h: no exception leaves, every refusal leaves a message.

#include "kernels/train.h"

#include <cstdio>
#include <exception>
#include <new>

#include "kernels/common/refusal.h"
#include "kernels/sm90/train/train_engine.h"

// The handle of the interface.
struct mxcheck_train_run {
  mxcheck_kernels::sm90::Engine engine;
};

namespace mxcheck_kernels::sm90 {
namespace {

template <class Body>
mxcheck_status guarded(char* message, std::uint64_t bytes, const Body& body) noexcept {
  const auto say = [&](const char* text) {
    if (message != nullptr && bytes != 0) std::snprintf(message, bytes, "%s", text);
  };
  try {
    body();
    return MXCHECK_OK;
  } catch (const Refusal& refusal) {
    say(refusal.what());
    return refusal.status();
  } catch (const std::bad_alloc&) {
    say("out of memory");
    return MXCHECK_NO_MEMORY;
  } catch (const std::exception& error) {
    say(error.what());
    return MXCHECK_FAILED;
  }
}

template <class... T>
void require_given(const T*... pointers) {
  const bool all = (... && (pointers != nullptr));
  if (!all) invalid("an argument is null: only a message may be");
}

constexpr mxcheck_train_table kTable{
    MXCHECK_TRAIN_VERSION,
    sizeof(mxcheck_train_table),
    "sm90_train",
    MXCHECK_SM90_VERSION,
    [](const mxcheck_train_config* config, mxcheck_train_run** run, char* message, std::uint64_t bytes) {
      return guarded(message, bytes, [&] {
        require_given(config, run);
        *run = new mxcheck_train_run{Engine(whole_config(*config))};
      });
    },
    [](mxcheck_train_run* run) { delete run; },
    [](const mxcheck_train_run* run, std::int64_t parameter) {
      return run == nullptr ? std::int64_t{-1} : run->engine.parameter_size(parameter);
    },
    [](mxcheck_train_run* run, std::int64_t parameter, const float* weights, const float* first, const float* second,
       char* message, std::uint64_t bytes) {
      return guarded(message, bytes, [&] {
        require_given(run);
        run->engine.set_parameter(parameter, weights, first, second);
      });
    },
    [](mxcheck_train_run* run, std::int64_t parameter, float* weights, float* first, float* second, char* message,
       std::uint64_t bytes) {
      return guarded(message, bytes, [&] {
        require_given(run);
        run->engine.get_parameter(parameter, weights, first, second);
      });
    },
    [](mxcheck_train_run* run, const mxcheck_train_step* input, mxcheck_train_outcome* outcome, char* message,
       std::uint64_t bytes) {
      return guarded(message, bytes, [&] {
        require_given(run, input, outcome);
        run->engine.step(*input, *outcome);
      });
    },
    [](mxcheck_train_run* run, mxcheck_train_evaluation* evaluation, char* message, std::uint64_t bytes) {
      return guarded(message, bytes, [&] {
        require_given(run, evaluation);
        run->engine.evaluate(*evaluation);
      });
    },
    [](mxcheck_train_run* run, const char* name, void* data, std::uint64_t* size, char* message, std::uint64_t bytes) {
      return guarded(message, bytes, [&] {
        require_given(run, name, size);
        run->engine.read(name, data, *size);
      });
    },
    sizeof(mxcheck_train_config),
};

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_train_table* mxcheck_train(void) {
  return &mxcheck_kernels::sm90::kTable;
}
