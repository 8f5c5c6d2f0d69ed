#pragma once
// Private to goldens/ and its tests: the HDF5 library's identifiers as objects, and its error stack as one line.

#include <hdf5.h>

#include <string>
#include <utility>

namespace mxcheck {

class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}  // an id below 0, the library's failure, is kept
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    if (this != &other) {
      close();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
      close_ = other.close_;
    }
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  ~Hdf5Handle() { close(); }

  [[nodiscard]] hid_t id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  // False when the library failed, which for a file means that it is not whole.
  bool close() {
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return id < 0 || close_(id) >= 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

// Nothing is printed by the library, no code comes from plugin directories, and there is no atexit handler. The first
// is a setting of the calling thread: every public function that calls HDF5 begins with this.
void quiet_hdf5();

// The innermost entries of the library's error stack: " (HDF5: file write failed: ...; unable to flush)"; empty when
// the stack is.
std::string hdf5_says();

// File access with the library's locks where the file system has them (shared, as readers take them), or without.
enum class Hdf5Locks { best_effort, none };
Hdf5Handle hdf5_access(Hdf5Locks locks);

}  // namespace mxcheck
