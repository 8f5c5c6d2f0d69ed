#include "properties/core/ahead.h"

#include <algorithm>
#include <utility>

#include "properties/core/check.h"
#include "reference/common/parallel.h"

namespace mxcheck {

Posed pose(const Case& c) {
  Posed posed{make_problem(c), {}};
  posed.answer = posed.problem->answer();
  return posed;
}

AnswersAhead::AnswersAhead(std::vector<Case> cases, int threads)
    : cases_(std::move(cases)), most_ahead_(static_cast<std::size_t>(threads)), slots_(cases_.size()) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

AnswersAhead::~AnswersAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void AnswersAhead::work() {
  const OneThreadEach one;  // the cases are what is divided
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over_ || begun_ == cases_.size() || begun_ <= current_ + most_ahead_; });
    if (is_over_ || begun_ == cases_.size()) return;
    const std::size_t number = begun_++;
    lock.unlock();
    Slot slot;
    try {
      slot.posed = std::make_unique<Posed>(pose(cases_[number]));
    } catch (...) {
      slot.failure = std::current_exception();
    }
    slot.is_done = true;
    lock.lock();
    if (number >= current_) slots_[number] = std::move(slot);
    changed_.notify_all();
  }
}

void AnswersAhead::go_to(std::size_t number) {
  {
    const std::lock_guard lock(mutex_);
    for (; current_ < number; ++current_) slots_[current_] = {};
    begun_ = std::max(begun_, current_);  // passed over before any thread came to them
  }
  changed_.notify_all();
}

std::unique_ptr<Posed> AnswersAhead::take(const Case& c) {
  std::unique_lock lock(mutex_);
  if (current_ >= cases_.size() || !(cases_[current_] == c)) return nullptr;
  Slot& slot = slots_[current_];
  if (slot.is_done && slot.posed == nullptr && slot.failure == nullptr) return nullptr;  // taken before
  changed_.wait(lock, [&] { return slot.is_done; });
  if (slot.failure) std::rethrow_exception(slot.failure);
  return std::move(slot.posed);
}

}  // namespace mxcheck
