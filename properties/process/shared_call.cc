#include "properties/process/shared_call.h"

#include <algorithm>
#include <cfenv>
#include <cstdio>
#include <cstring>
#include <string>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/operation.h"
#include "properties/process/call_watch.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kZone = wire::kPage;  // red zone before and after every tensor

void set_strides(const CallTensor& from, wire::Tensor& to) {
  if (!from.strides.empty()) {
    to.has_strides = 1;
    for (std::size_t i = 0; i < from.strides.size() && i < wire::kMaxDimensions; ++i) to.strides[i] = from.strides[i];
  } else if (from.row_stride != 0) {
    to.has_strides = 1;
    to.strides[0] = from.row_stride, to.strides[1] = 1;
  }
}

// in_place_of: null, or the input whose memory the output has.
wire::Tensor place(const CallTensor& tensor, const wire::Tensor* in_place_of, bool guard, std::uint64_t misaligned,
                   std::uint64_t& cursor) {
  wire::Tensor t;
  t.bytes = tensor.bytes;
  t.ndim = static_cast<std::int32_t>(tensor.shape.size());
  if (tensor.shape.size() > wire::kMaxDimensions) throw Error(ErrorKind::internal, "a tensor of too many dimensions");
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) t.shape[i] = tensor.shape[i];
  set_strides(tensor, t);
  t.lanes = tensor.lanes, t.device_id = tensor.device_id;
  t.elsewhere = tensor.elsewhere ? 1 : 0;
  t.null_shape = tensor.null_shape ? 1 : 0;
  t.null_data = tensor.null_data ? 1 : 0;
  t.guarded = guard && tensor.bytes != 0 ? 1 : 0;
  set_dtype(tensor, t);
  if (in_place_of != nullptr) {
    if (tensor.bytes != in_place_of->bytes) throw Error(ErrorKind::internal, "an update in place of another size");
    t.in_place_of = tensor.in_place_of;
    t.offset = in_place_of->offset;
    return t;
  }
  if (tensor.on_device) {
    t.on_device = 1;
    return t;
  }
  // Guarded tensors end where the next page begins, so that one element too many is a fault.
  const std::uint64_t begin = round_up(cursor, wire::kPage) + kZone;
  const std::uint64_t element = (t.dtype_bits + 7) / 8;
  const std::uint64_t past = guard ? 0 : misaligned / element * element;
  const std::uint64_t room = round_up(past + t.bytes, wire::kPage);
  t.offset = guard ? begin + room - t.bytes : begin + past;
  cursor = begin + room + kZone;
  return t;
}

bool all_equal(const std::byte* data, std::uint64_t bytes, std::uint8_t value) {
  if (bytes == 0) return true;
  return data[0] == std::byte{value} && std::memcmp(data, data + 1, bytes - 1) == 0;
}

void close_open_bytes(const CallTensor& tensor, std::vector<std::byte>& output) {
  for (const auto& [first, end] : tensor.open) {
    if (end <= output.size())
      std::fill(output.begin() + static_cast<std::ptrdiff_t>(first), output.begin() + static_cast<std::ptrdiff_t>(end),
                std::byte{0});
  }
}

}  // namespace

void set_dtype(const CallTensor& from, wire::Tensor& to) {
  if (from.is_offsets) {
    to.dtype_code = kDLInt, to.dtype_bits = 64;
  } else if (from.is_index) {
    to.dtype_code = kDLInt, to.dtype_bits = 32;
  } else if (from.dtype == Format::fp64 || from.dtype == Format::fp32 || from.dtype == Format::fp16) {
    to.dtype_code = kDLFloat, to.dtype_bits = static_cast<std::uint8_t>(spec(from.dtype).bits);
  } else if (from.dtype == Format::bf16) {
    to.dtype_code = kDLBfloat, to.dtype_bits = 16;
  } else {
    to.dtype_code = kDLUInt, to.dtype_bits = 8;
  }
}

SharedCall::SharedCall(const Call& call) : call_(call) {
  message_.policy = call.policy;
  message_.num_inputs = static_cast<std::int32_t>(call.inputs.size());
  message_.num_outputs = static_cast<std::int32_t>(call.outputs.size());
  const auto is_open = [](const CallTensor& output) { return !output.open.empty(); };
  message_.open_outputs = std::any_of(call.outputs.begin(), call.outputs.end(), is_open) ? 1 : 0;
  message_.byte_offset = call.byte_offset;
  message_.stream_mode = call.stream;
  message_.defect = call.defect;
  message_.poison = call.poison;
  message_.workspace = call.workspace;
  message_.memory = call.memory;
  message_.repeat = call.repeat;
  for (const CallTensor& t : call.inputs) tensors_.push_back(&t);
  for (const CallTensor& t : call.outputs) tensors_.push_back(&t);
  if (tensors_.size() > wire::kMaxTensors) throw Error(ErrorKind::internal, "a call of too many tensors");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::size_t inputs = call.inputs.size();
    const auto misaligned = i < inputs ? call.misaligned.of_input(i) : call.misaligned.of_output(i - inputs);
    const std::int32_t in_place_of = i < inputs ? -1 : tensors_[i]->in_place_of;
    message_.tensors[i] = place(*tensors_[i], in_place_of < 0 ? nullptr : &message_.tensors[in_place_of],
                                call.guard_pages, misaligned, message_.used_bytes);
    if (tensors_[i]->on_device) on_device_ += tensors_[i]->bytes;
  }
  if (call.between != nullptr) between_ = std::make_unique<SharedCall>(*call.between);
}

void SharedCall::write(std::byte* base) const {
  std::uint64_t filled = 0;
  const auto fill_up_to = [&](std::uint64_t end) {
    if (end > filled) std::memset(base + filled, call_.poison, end - filled);
  };
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {  // in the order in which they lie
    const CallTensor& input = call_.inputs[i];
    const std::uint64_t offset = message_.tensors[i].offset;
    if (input.bytes == 0) continue;
    fill_up_to(offset);
    std::memcpy(base + offset, input.data, input.bytes);
    filled = offset + input.bytes;
  }
  fill_up_to(bytes());
}

std::uint64_t SharedCall::bytes_with_between() const {
  if (between_ == nullptr && !call_.asked) return bytes();
  const std::uint64_t other = between_ == nullptr ? 0 : round_up(between_->bytes(), wire::kPage);
  return round_up(bytes(), wire::kPage) + other + sizeof(wire::Between);
}

void SharedCall::write_between(std::byte* base, wire::Message& message) const {
  if (between_ == nullptr && !call_.asked) return;
  wire::Between between;
  message.between = round_up(bytes(), wire::kPage);
  if (between_ != nullptr) {
    between.has_call = 1, between.displaced = message.between;
    between.call = between_->message();
    between.call.operation = message.operation, between.call.shared_bytes = message.shared_bytes;
    between_->write(base + between.displaced);
    message.between += round_up(between_->bytes(), wire::kPage);
  }
  if (call_.asked) {
    between.has_question = 1, between.question = on_the_wire(*call_.asked);
  }
  std::memcpy(base + message.between, &between, sizeof(between));
}

wire::Question on_the_wire(const Question& question) {
  wire::Tensor values;
  set_dtype({.dtype = question.dtype}, values);
  return {.policy = question.policy, .dtype_code = values.dtype_code, .dtype_bits = values.dtype_bits};
}

bool SharedCall::is_updated(std::size_t input) const {
  return std::any_of(call_.outputs.begin(), call_.outputs.end(),
                     [&](const CallTensor& o) { return o.in_place_of == static_cast<std::int32_t>(input); });
}

namespace {
// True if what was written into this gap between two tensors lies nearer to the first one's end.
bool is_past_the_first(const std::byte* gap, std::uint64_t bytes, std::uint8_t poison) {
  std::uint64_t first = 0, last = bytes;
  while (first < bytes && gap[first] == std::byte{poison}) ++first;
  while (last > first && gap[last - 1] == std::byte{poison}) --last;
  return first <= bytes - last;
}
}  // namespace

std::optional<std::string> SharedCall::trespass(const std::byte* base) const {
  std::optional<std::string> where;
  std::string before;  // the tensor before this one
  std::uint64_t clean_from = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const wire::Tensor& t = message_.tensors[i];
    if (t.on_device != 0 || t.in_place_of >= 0) continue;  // an update in place: looked at where the input is
    const bool input = i < call_.inputs.size();
    const std::string what = input ? "input " + std::to_string(i) : "output " + std::to_string(i - call_.inputs.size());
    if (!all_equal(base + clean_from, t.offset - clean_from, call_.poison)) {
      const bool is_past = !before.empty() && is_past_the_first(base + clean_from, t.offset - clean_from, call_.poison);
      where = is_past ? "past the end of " + before : "before " + what;
    }
    if (input && t.bytes != 0 && !is_updated(i) && std::memcmp(base + t.offset, call_.inputs[i].data, t.bytes) != 0) {
      where = "into " + what;
    }
    clean_from = t.offset + t.bytes, before = what;
  }
  if (!all_equal(base + clean_from, bytes() - clean_from, call_.poison)) where = "past the last output";
  return where;
}

bool SharedCall::output_is(const std::byte* base, std::size_t output, std::span<const std::byte> expected) const {
  const wire::Tensor& t = message_.tensors[call_.inputs.size() + output];
  if (expected.size() != t.bytes) return false;
  const auto is_equal = [&](std::uint64_t first, std::uint64_t end) {
    return first >= end || std::memcmp(base + t.offset + first, expected.data() + first, end - first) == 0;
  };
  std::uint64_t from = 0;
  for (const auto& [first, end] : call_.outputs[output].open) {
    if (first < from || end > t.bytes) return false;  // out of order: whoever copies the bytes looks at each
    if (!is_equal(from, first)) return false;
    from = end;
  }
  return is_equal(from, t.bytes);
}

bool SharedCall::holds(const std::byte* base, const std::vector<std::span<const std::byte>>& outputs) const {
  for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
    if (!output_is(base, i, outputs[i])) return false;
  }
  return !trespass(base);
}

bool SharedCall::outputs_are_the_answer(const std::byte* base) const {
  if (!call_.brings_other_outputs_only || call_.answer == nullptr || call_.answer->size() != call_.outputs.size())
    return false;
  for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
    if (call_.outputs[i].on_device || !output_is(base, i, (*call_.answer)[i].bytes)) return false;
  }
  return true;
}

void SharedCall::read(const std::byte* base, Outcome& outcome) const {
  outcome.outputs_untouched = true;
  outcome.is_the_answer = outputs_are_the_answer(base);
  for (std::size_t i = call_.inputs.size(); i < tensors_.size(); ++i) {
    const wire::Tensor& t = message_.tensors[i];
    if (t.on_device != 0) {
      outcome.outputs.emplace_back();
      continue;
    }
    if (!outcome.is_the_answer) outcome.outputs.emplace_back(base + t.offset, base + t.offset + t.bytes);
    if (t.in_place_of >= 0) {  // where the input was looked at, around it
      const CallTensor& input = call_.inputs[static_cast<std::size_t>(t.in_place_of)];
      if (t.bytes != 0 && std::memcmp(base + t.offset, input.data, t.bytes) != 0) outcome.outputs_untouched = false;
    } else if (!all_equal(base + t.offset, t.bytes, call_.poison)) {
      outcome.outputs_untouched = false;
    }
  }
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i) close_open_bytes(call_.outputs[i], outcome.outputs[i]);
  if (std::optional<std::string> where = trespass(base)) outcome.out_of_bounds = std::move(where);
}

}  // namespace mxcheck

#if defined(__x86_64__)
  #include <immintrin.h>
#endif

namespace mxcheck {
namespace {

void add(std::string& text, const std::string& more, const char* between) {
  if (!more.empty()) text += (text.empty() ? "" : between) + more;
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    case SIGABRT: return "SIGABRT";
    default: return "SIGTRAP";
  }
}

}  // namespace

#if defined(__x86_64__)
namespace {
constexpr std::uint32_t kRaised = 0x3F;  // MXCSR: exceptions that have occurred
constexpr std::uint32_t kDenormalsAreZero = 0x40;
constexpr std::uint32_t kMasks = 0x1F80;  // set: the exception does not trap
constexpr std::uint32_t kFlushToZero = 0x8000;
}  // namespace

FloatingPoint FloatingPoint::now() {
  FloatingPoint is;
  is.control = _mm_getcsr() & ~kRaised;
  asm volatile("fnstcw %0" : "=m"(is.x87));
  return is;
}

void FloatingPoint::restore() const {
  _mm_setcsr(control);
  asm volatile("fldcw %0" : : "m"(x87));
}

std::string to_text(const FloatingPoint& environment) {
  static constexpr const char* kRounding[] = {"to nearest", "downward", "upward", "toward zero"};
  std::string text = std::string("rounding ") + kRounding[environment.control >> 13 & 3];
  if ((environment.control & kFlushToZero) != 0) text += ", results flushed to zero";
  if ((environment.control & kDenormalsAreZero) != 0) text += ", subnormals read as zero";
  if ((environment.control & kMasks) != kMasks) text += ", exceptions trap";
  char x87[32];
  std::snprintf(x87, sizeof(x87), ", x87 control word %04x", environment.x87);
  return text + x87;
}
#else
FloatingPoint FloatingPoint::now() { return {static_cast<std::uint32_t>(std::fegetround()), 0}; }
void FloatingPoint::restore() const { std::fesetround(static_cast<int>(control)); }
std::string to_text(const FloatingPoint& environment) { return "rounding mode " + std::to_string(environment.control); }
#endif

SignalHandlers SignalHandlers::now() {
  SignalHandlers all;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &all.actions_[i]);
  return all;
}

std::string SignalHandlers::undo_changes(bool all) const {
  std::string text;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction is {};
    sigaction(kSignals[i], nullptr, &is);
    // The flags say nothing: the C library adds one to those that it sets.
    if (is.sa_handler == actions_[i].sa_handler) continue;
    const bool hides = kSignals[i] == SIGSEGV || kSignals[i] == SIGBUS;
    if (!hides && !all) continue;
    add(text, std::string("installed a handler for ") + name_of(kSignals[i]), ", ");
    if (hides) text += ", which hides accesses outside of tensors";
    sigaction(kSignals[i], &actions_[i], nullptr);
  }
  return text;
}

CallWatch::CallWatch(const SignalHandlers& handlers, const ProcessState& process)
    : handlers_(handlers), process_(process), floating_point_(FloatingPoint::now()) {
  pthread_sigmask(SIG_BLOCK, nullptr, &mask_);
}

std::string CallWatch::undo_changes() const {
  std::string text = handlers_.undo_changes(true);
  const FloatingPoint is = FloatingPoint::now();
  if (!(is == floating_point_)) {
    add(text, "changed the floating-point environment: " + to_text(is), "; ");
    floating_point_.restore();
  }
  sigset_t mask{};  // what the kernel does not fill is equal
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  if (std::memcmp(&mask, &mask_, sizeof(mask)) != 0) {
    add(text, "changed the signal mask", "; ");
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  add(text, process_.undo_changes(), "; ");
  return text;
}

void add_conduct(wire::Reply& reply, const std::string& what) {
  std::string text = reply.conduct;
  add(text, what, "; ");
  std::snprintf(reply.conduct, sizeof(reply.conduct), "%s", text.c_str());
}

}  // namespace mxcheck
