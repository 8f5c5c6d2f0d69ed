#include "goldens/hdf5/handle.h"

namespace mxcheck {

void quiet_hdf5() {
  // A file whose writing failed (a full disk) cannot be closed either. At the end of the process the library would try
  // again, and crash.
  static const herr_t no_attempt_at_exit = H5dont_atexit();
  static_cast<void>(no_attempt_at_exit);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

namespace {

// The file driver lists time, name, descriptor, addresses and sizes around the one thing that helps.
std::string plain(const std::string& text) {
  constexpr const char* kReason = "error message = '";
  const std::size_t reason = text.find(kReason);
  if (reason == std::string::npos) return text;
  const std::size_t from = reason + std::char_traits<char>::length(kReason);
  return text.substr(0, text.find(": ") + 2) + text.substr(from, text.find('\'', from) - from);
}

}  // namespace

std::string hdf5_says() {
  struct Said {
    std::string text;
    std::string last;
  } said;
  constexpr unsigned kEntries = 3;
  const auto visit = [](unsigned n, const H5E_error2_t* error, void* data) -> herr_t {
    auto& into = *static_cast<Said*>(data);
    if (n >= kEntries || error->desc == nullptr || error->desc == into.last) return 0;
    into.last = error->desc;
    into.text += (into.text.empty() ? "" : "; ") + plain(into.last);
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &said);
  for (char& c : said.text) {  // the time of a failed write ends in a line break, and names come from the file
    if (c < ' ' || c > '~') c = ' ';
  }
  return said.text.empty() ? "" : " (HDF5: " + said.text + ")";
}

Hdf5Handle hdf5_access(Hdf5Locks locks) {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE < 1)
  H5Pset_file_locking(access.id(), locks == Hdf5Locks::best_effort ? 1 : 0, 1);
#endif
  return access;
}

}  // namespace mxcheck
