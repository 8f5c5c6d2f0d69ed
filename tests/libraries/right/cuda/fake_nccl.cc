// NCCL between processes of one host, for the fake driver: each message is a file in a folder that the id names, and
// a group is one kernel, which writes all that it sends before it waits for what it receives. FAKE_NCCL_VERSION is
// another version.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

extern "C" int fake_launch(void* stream, void (*kernel)(void*), void* argument);

namespace {

struct UniqueId {
  char folder[128];
};

struct Communicator {
  std::string folder;
  int rank = 0;
  std::map<std::string, int> counts;
};

struct Message {
  std::string file;
  char* data;
  std::size_t bytes;
};

struct Group {
  std::vector<Message> sends, receives;
  void* stream = nullptr;
};

Group*& open_group() {
  static Group* group = nullptr;
  return group;
}

std::string file_of(Communicator& c, int from, int to) {
  const std::string name = c.folder + "/" + std::to_string(from) + "_" + std::to_string(to) + "_";
  return name + std::to_string(c.counts[name]++);
}

void run(void* argument) {
  const auto* const group = static_cast<Group*>(argument);
  for (const Message& m : group->sends) {
    std::ofstream(m.file + ".part", std::ios::binary).write(m.data, static_cast<std::streamsize>(m.bytes));
    std::filesystem::rename(m.file + ".part", m.file);
  }
  for (const Message& m : group->receives) {
    while (!std::filesystem::exists(m.file)) usleep(500);
    std::ifstream(m.file, std::ios::binary).read(m.data, static_cast<std::streamsize>(m.bytes));
    std::filesystem::remove(m.file);
  }
  delete group;
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int ncclGetVersion(int* version) {
  const char* const other = std::getenv("FAKE_NCCL_VERSION");
  return *version = other == nullptr ? 22703 : std::atoi(other), 0;
}
FAKE_EXPORT const char* ncclGetErrorString(int) { return "unhandled system error"; }
FAKE_EXPORT int ncclGetUniqueId(UniqueId* id) {
  std::snprintf(id->folder, sizeof(id->folder), "/tmp/fake_nccl_XXXXXX");
  return mkdtemp(id->folder) == nullptr ? 2 : 0;
}
FAKE_EXPORT int ncclCommInitRank(void** communicator, int, UniqueId id, int rank) {
  *communicator = new Communicator{id.folder, rank, {}};
  return 0;
}
FAKE_EXPORT int ncclCommDestroy(void* communicator) {
  const auto* const c = static_cast<Communicator*>(communicator);
  std::error_code none;
  if (c->rank == 0) std::filesystem::remove_all(c->folder, none);
  delete c;
  return 0;
}
FAKE_EXPORT int ncclCommAbort(void* communicator) { return ncclCommDestroy(communicator); }
FAKE_EXPORT int ncclGroupStart() { return open_group() = new Group, 0; }
FAKE_EXPORT int ncclSend(const void* data, std::size_t count, int, int peer, void* communicator, void* stream) {
  auto& c = *static_cast<Communicator*>(communicator);
  open_group()->stream = stream;
  open_group()->sends.push_back({file_of(c, c.rank, peer), const_cast<char*>(static_cast<const char*>(data)), count});
  return 0;
}
FAKE_EXPORT int ncclRecv(void* data, std::size_t count, int, int peer, void* communicator, void* stream) {
  auto& c = *static_cast<Communicator*>(communicator);
  open_group()->stream = stream;
  open_group()->receives.push_back({file_of(c, peer, c.rank), static_cast<char*>(data), count});
  return 0;
}
FAKE_EXPORT int ncclGroupEnd() {
  Group* const group = open_group();
  open_group() = nullptr;
  return group->stream == nullptr ? 0 : fake_launch(group->stream, run, group);
}
