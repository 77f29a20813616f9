// SPDX-License-Identifier: Apache-2.0
//
// The frame of the escape probes. A probe is one attempt to reach something outside a sandbox. It makes raw
// system calls, says what the kernel answered, and never judges: the verdict is made outside, by
// tests/escape/harness.py.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace atl::escape {

// What the harness tells the probes, as key=value arguments: ports, addresses, names of canaries. Never a
// secret.
using Args = std::map<std::string, std::string, std::less<>>;

struct Outcome {
  bool reached = false;
  int error = 0;       // errno of the decisive call, 0 when it succeeded
  std::string detail;  // what was seen; bytes that were read go here, so that the harness can find its
                       // secrets in them
};

struct Probe {
  const char* id;       // "K01.core_pattern"
  const char* attempt;  // for people
  Outcome (*run)(const Args&);
};

std::span<const Probe> kernel_probes();
std::span<const Probe> syscall_probes();
std::span<const Probe> file_probes();
std::span<const Probe> process_probes();
std::span<const Probe> network_probes();
std::span<const Probe> resource_probes();

// syscall(2) without the wrappers of the C library.
template <class... T>
long raw(long number, T... arguments);

inline Outcome blocked(int error, std::string detail = {}) { return {false, error, std::move(detail)}; }
inline Outcome reached(std::string detail = {}) { return {true, 0, std::move(detail)}; }
// The call was let through when it succeeded, or when it failed with one of `past`: errors that the kernel
// gives only after its permission checks.
Outcome judge(long result, std::initializer_list<int> past = {});

// The value of a key, or "" when the harness did not give it.
const std::string& arg(const Args& args, std::string_view key);
int int_arg(const Args& args, std::string_view key);

// The first `limit` bytes of a file, with unprintable ones as '.'; empty with errno set when it cannot be
// read.
std::string read_text(const char* path, std::size_t limit = 2048);
// Opens for writing; when that works, writes `text` (nothing when empty).
Outcome try_write(const char* path, std::string_view text);
// Opens and reads; reached when at least one byte other than 0 came.
Outcome try_read(const char* path, std::size_t limit = 512);
// Every stretch of `data` that begins with the needle of the harness, with the 64 bytes behind it.
std::string find_needle(std::string_view data, std::string_view needle);

}  // namespace atl::escape

#include <unistd.h>
namespace atl::escape {
// Each argument fills a whole register: the upper half of an int passed through "..." is undefined.
template <class T>
long to_register(T value) {
  if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>)
    return reinterpret_cast<long>(static_cast<const volatile void*>(value));
  else
    return static_cast<long>(value);
}
template <class... T>
long raw(long number, T... arguments) {
  return ::syscall(number, to_register(arguments)...);
}
}  // namespace atl::escape
