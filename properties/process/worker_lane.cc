#include "properties/process/worker_lane.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "properties/process/call_watch.h"
#include "properties/process/worker_call.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kWorkerZone = 4096;  // before and after the workspace and what stays on the device
constexpr unsigned char kZonePoison = 0xC7;  // of the workspace's zones
constexpr std::uint64_t kMostWorkspace = std::uint64_t{1} << 37;

void take_message(const DeviceCall& c) {
  if (const char* problem = c.text.take(c.reply); problem != nullptr) add_conduct(c.reply, problem);
}

}  // namespace

Lane::Lane(CudaDevice& device) : device_(device), report_(device.allocate(sizeof(mxcheck_device_report))) {}

void Lane::reserve(CudaPointer& memory, std::uint64_t& capacity, std::uint64_t bytes) {
  if (bytes <= capacity) return;
  device_.free(memory);
  memory = 0, capacity = 0;
  const std::uint64_t wanted = (bytes + bytes / 4 + 0xFFFFF) & ~std::uint64_t{0xFFFFF};
  memory = device_.allocate(wanted);
  capacity = wanted;
}

void Lane::move() {
  // The new arena is taken before the old one goes, so that it is elsewhere.
  const CudaPointer old = arena_;
  arena_ = 0;
  if (arena_capacity_ != 0) arena_ = device_.allocate(arena_capacity_);
  device_.free(old);
}

CudaPointer Lane::address_of(const DeviceCall& c, int tensor) const {
  const wire::Tensor& t = c.message.tensors[tensor];
  if (t.in_place_of >= 0) return address_of(c, t.in_place_of);
  if (t.on_device != 0) return staying_[tensor].memory + kWorkerZone;
  const CudaDevice::Guarded& guarded = guarded_[tensor];
  return t.guarded != 0 ? guarded.begin + guarded.bytes - t.bytes : arena_ + t.offset;
}

bool Lane::prepare(const DeviceCall& c) {
  reserve(arena_, arena_capacity_, std::max<std::uint64_t>(1, c.message.used_bytes));
  for (int i = 0; i < c.tensors(); ++i) {
    const wire::Tensor& t = c.message.tensors[i];
    if (t.on_device != 0) reserve(staying_[i].memory, staying_[i].capacity, t.bytes + 2 * kWorkerZone);
    if (t.guarded == 0 || t.in_place_of >= 0 || t.bytes <= guarded_[i].bytes) continue;
    device_.free_guarded(guarded_[i]);
    guarded_[i] = {};
    guarded_[i] = device_.allocate_guarded(t.bytes);
  }
  workspace_bytes_ = 0;
  if (!prepare_memory(c)) return false;
  if (c.operation.workspace == nullptr) return true;
  PolicyWithMemory policy(c.message, c.policy);
  policy.set(c.message.memory, reinterpret_cast<void*>(memory_ + kWorkerZone), memory_bytes_);
  CandidateCall call(c.message, policy.get(), c.text, kDLCUDA, [&](int i) { return address_of(c, i); });
  c.text.clear();
  c.reply.status = call.ask_workspace(c.operation, workspace_bytes_, c.reply);
  take_message(c);
  if (c.reply.status != MXCHECK_OK) return false;
  if (workspace_bytes_ == 0) return true;
  if (workspace_bytes_ > kMostWorkspace) {
    CandidateCall::refuse_for_want_of_memory(c.reply, "workspace");
    return false;
  }
  const bool larger = workspace_bytes_ + 2 * kWorkerZone > workspace_capacity_;
  reserve(workspace_, workspace_capacity_, workspace_bytes_ + 2 * kWorkerZone);
  if (larger) device_.fill(workspace_, kZonePoison, workspace_capacity_, nullptr);  // of a last call nothing is left
  device_.fill(workspace_, kZonePoison, kWorkerZone, nullptr);
  if (c.message.workspace.keep == 0)
    device_.fill(workspace_ + kWorkerZone, c.message.workspace.poison, workspace_bytes_, nullptr);
  device_.fill(workspace_ + kWorkerZone + workspace_bytes_, kZonePoison, kWorkerZone, nullptr);
  device_.synchronize(nullptr);
  return true;
}

bool Lane::prepare_memory(const DeviceCall& c) {
  memory_bytes_ = 0, memory_zones_ = false;
  if (c.message.memory.policy_offset == 0 || c.operation.workspace == nullptr) return true;
  PolicyWithMemory policy(c.message, c.policy);
  memory_zones_ = policy.keeps();
  policy.ask();
  CandidateCall call(c.message, policy.get(), c.text, kDLCUDA, [&](int i) { return address_of(c, i); });
  c.text.clear();
  c.reply.status = call.ask_workspace(c.operation, memory_bytes_, c.reply);
  take_message(c);
  if (c.reply.status != MXCHECK_OK) return false;
  memory_bytes_ = PolicyWithMemory::room(c.message.memory, memory_bytes_);
  const std::uint64_t wanted = memory_bytes_ + 2 * kWorkerZone;
  if (wanted > memory_capacity_) {
    const CudaPointer before = memory_;
    const std::uint64_t held = memory_capacity_;
    memory_ = 0, memory_capacity_ = 0;
    reserve(memory_, memory_capacity_, wanted);
    device_.fill(memory_, kZonePoison, memory_capacity_, nullptr);
    if (before != 0) device_.copy(memory_, before, held, nullptr);
    device_.synchronize(nullptr);
    device_.free(before);
  }
  device_.fill(memory_, kZonePoison, kWorkerZone, nullptr);
  if (c.message.memory.is_fresh) device_.fill(memory_ + kWorkerZone, c.message.poison, memory_bytes_, nullptr);
  if (memory_zones_) device_.fill(memory_ + kWorkerZone + memory_bytes_, kZonePoison, kWorkerZone, nullptr);
  device_.synchronize(nullptr);
  return true;
}

void Lane::load(const DeviceCall& c, CudaHandle stream) {
  device_.to_device(arena_, c.shared, c.message.used_bytes, stream);
  for (int i = 0; i < c.tensors(); ++i) {
    const wire::Tensor& t = c.message.tensors[i];
    if (t.guarded != 0) device_.to_device(address_of(c, i), c.shared + t.offset, t.bytes, stream);
    if (t.on_device != 0) device_.fill(staying_[i].memory, c.message.poison, t.bytes + 2 * kWorkerZone, stream);
  }
  device_.fill(report_, 0, sizeof(mxcheck_device_report), stream);
}

void Lane::fill(const DeviceCall& c, std::uint8_t value, CudaHandle stream) {
  device_.fill(arena_, value, c.message.used_bytes, stream);
}

void Lane::copy_from(const DeviceCall& c, const Lane& other, CudaHandle stream) {
  device_.copy(arena_, other.arena_, c.message.used_bytes, stream);
  device_.fill(report_, 0, sizeof(mxcheck_device_report), stream);
}

void Lane::run(const DeviceCall& c, CudaHandle stream) {
  PolicyWithMemory policy(c.message, c.policy);
  if (!policy.set(c.message.memory, reinterpret_cast<void*>(memory_ + kWorkerZone), memory_bytes_)) {
    return CandidateCall::refuse_for_want_of_a_workspace(c.reply, "memory for kept weights");
  }
  CandidateCall call(c.message, policy.get(), c.text, kDLCUDA, [&](int i) { return address_of(c, i); });
  c.text.clear();
  call.call.stream = stream;
  call.call.report = reinterpret_cast<mxcheck_device_report*>(report_);
  if (!call.set_workspace(c.message, reinterpret_cast<void*>(workspace_ + kWorkerZone), workspace_bytes_)) {
    return CandidateCall::refuse_for_want_of_a_workspace(c.reply);
  }
  c.reply.status = call.run(c.operation, c.reply);
  take_message(c);
}

bool Lane::is_whole(CudaPointer zones, std::uint64_t bytes, unsigned char poison) {
  std::array<unsigned char, 2 * kWorkerZone> both{};
  device_.to_host(both.data(), zones, kWorkerZone, nullptr);
  device_.to_host(both.data() + kWorkerZone, zones + kWorkerZone + bytes, kWorkerZone, nullptr);
  device_.synchronize(nullptr);
  return std::all_of(both.begin(), both.end(), [poison](unsigned char byte) { return byte == poison; });
}

void Lane::check_zones(const DeviceCall& c) {
  if (workspace_bytes_ != 0 && !is_whole(workspace_, workspace_bytes_, kZonePoison)) c.reply.workspace_broken = 1;
  if (memory_zones_ && !is_whole(memory_, memory_bytes_, kZonePoison))
    add_conduct(c.reply, "wrote beside the memory for kept weights");
  for (int i = 0; i < c.tensors(); ++i) {
    const wire::Tensor& t = c.message.tensors[i];
    if (t.on_device != 0 && !is_whole(staying_[i].memory, t.bytes, c.message.poison)) c.reply.zones_broken = 1;
  }
}

void Lane::collect(const DeviceCall& c, CudaHandle stream, std::byte* into) {
  device_.synchronize(stream);
  device_.to_host(into, arena_, c.message.used_bytes, stream);
  for (int i = 0; i < c.tensors(); ++i) {
    const wire::Tensor& t = c.message.tensors[i];
    if (t.guarded != 0) device_.to_host(into + t.offset, address_of(c, i), t.bytes, stream);
  }
  mxcheck_device_report report{};
  device_.to_host(&report, report_, sizeof(report), stream);
  device_.synchronize(stream);
  check_zones(c);
  if (c.reply.status != MXCHECK_OK || report.status == MXCHECK_OK) return;
  c.reply.status = report.status;
  report.message[sizeof(report.message) - 1] = '\0';
  std::snprintf(c.reply.message, sizeof(c.reply.message), "%s (index %lld, value %lld)", report.message,
                static_cast<long long>(report.index), static_cast<long long>(report.value));
}

}  // namespace mxcheck
