#pragma once
// The boundary of the C interface: exceptions become results, and their text is kept for mxcheck_c_error.

#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "numerics/error.h"

namespace mxcheck::c {

// The message of this thread's last call that failed.
std::string& last_error();

template <class Call>
std::int32_t guarded(const Call& call) noexcept {
  try {
    call();
    return 0;
  } catch (const Error& e) {
    last_error() = e.what();
    return spec(e.kind()).c_result;
  } catch (const std::bad_alloc&) {
    last_error() = "not enough memory";
    return spec(ErrorKind::environment).c_result;
  } catch (const std::exception& e) {
    last_error() = e.what();
    return spec(ErrorKind::internal).c_result;
  }
}

[[noreturn]] void refuse(const std::string& text);  // Error{usage}

// Text that a caller gave; `name` is its argument's.
std::string_view text_of(const char* text, const char* name);
std::int64_t check_count(std::int64_t count, const char* name);
void check_pointer(const void* pointer, std::int64_t count, const char* name);

// A struct that a caller gave: not null, and of this release's size.
template <class Struct>
const Struct& struct_of(const Struct* given, const char* name) {
  if (given == nullptr) refuse(std::string(name) + " is null");
  if (given->size != static_cast<std::int64_t>(sizeof(Struct))) {
    refuse(std::string(name) + ".size is " + std::to_string(given->size) + ": it must be " +
           std::to_string(sizeof(Struct)) + ", or the caller was built for another release");
  }
  return *given;
}
std::int32_t threads_of(std::int64_t threads);
float fp32_of(double value, const char* name);  // that is one

// The signature is that of functions.inc.
void give_text(std::string_view whole, char* text, std::int64_t capacity, std::int64_t* size);

std::span<const std::int64_t> offsets_of(const std::int64_t* offsets, std::int64_t count);

}  // namespace mxcheck::c
