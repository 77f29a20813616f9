// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: either a value or an Error. The one way a function of Atoll reports failure.
//
//   Result<Fd> open_config(const std::string& path) {
//     TRY(Fd fd, sys::open(path, O_RDONLY | O_CLOEXEC));
//     return fd;
//   }
//
// In a coroutine write CO_TRY / CO_TRY_VOID. The macros declare a variable in the current scope; they are
// not expressions, because g++ cannot compile those inside a coroutine (docs/decisions/0002-results.md).
// The interface is the subset of std::expected that we use.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace atl {

// What kind of failure it was. Few on purpose: each maps to one HTTP status and one exit code.
enum class Code : std::uint8_t {
  kInvalid,          // the request is wrong and will stay wrong                      400
  kUnauthenticated,  // who are you                                                    401
  kDenied,           // we know who you are, and no                                    403
  kNotFound,         //                                                                404
  kConflict,         // the object's state does not allow it now                       409
  kExists,           //                                                                409
  kTooLarge,         // a bound on size was exceeded                                   413
  kExhausted,        // a quota or rate of the caller                                  429
  kCancelled,        // the caller went away                                           499
  kInternal,         // a bug of ours                                                  500
  kUnsupported,      // not in this version, or not on this host                       501
  kUnavailable,      // try again later; capacity, start-up, peer gone                 503
  kDeadline,         // a time limit passed                                            504
  kNoSpace,          // a disk is full                                                 507
  kCorrupt,          // stored or received bytes are not what they must be             500
};

std::string_view code_name(Code code);  // "invalid", "not_found", ...
int http_status(Code code);

// An error: a code, a sentence for people, and optionally a stable word for programs, a hint and an errno.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  // Wraps an errno of the named operation: "mount overlay on /x: Operation not permitted".
  static Error from_errno(int number, std::string_view operation);

  Code code() const { return code_; }
  int sys_errno() const { return errno_; }  // 0 when no system call failed
  const std::string& message() const { return message_; }
  // Stable machine word, for example "isolation_unavailable". Falls back to the code's name.
  std::string_view word() const { return word_.empty() ? code_name(code_) : std::string_view(word_); }
  const std::string& hint() const { return hint_; }  // what the reader can do about it, may be empty

  Error&& with_word(std::string word) && {
    word_ = std::move(word);
    return std::move(*this);
  }
  Error&& with_hint(std::string hint) && {
    hint_ = std::move(hint);
    return std::move(*this);
  }
  Error&& with_code(Code code) && {
    code_ = code;
    return std::move(*this);
  }
  // Puts "what: " in front of the message, so that the reader sees on which object it failed.
  Error&& context(std::string_view what) && {
    message_ = fmt::format("{}: {}", what, message_);
    return std::move(*this);
  }

 private:
  Code code_;
  int errno_ = 0;
  std::string message_;
  std::string word_;
  std::string hint_;
};

template <class T = void>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }
  T value_or(T fallback) && { return ok() ? std::get<0>(std::move(state_)) : std::move(fallback); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  void value() const {}
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

inline Result<void> success() { return {}; }

template <class... Args>
Error make_error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace atl

#define ATOLL_CAT2(a, b) a##b
#define ATOLL_CAT(a, b) ATOLL_CAT2(a, b)
#define ATOLL_TRY_IMPL(tmp, ret, decl, ...)  \
  auto tmp = (__VA_ARGS__);                  \
  if (!tmp.ok()) ret std::move(tmp).error(); \
  decl = std::move(tmp).value()
#define ATOLL_TRY_VOID_IMPL(tmp, ret, ...)     \
  do {                                         \
    auto tmp = (__VA_ARGS__);                  \
    if (!tmp.ok()) ret std::move(tmp).error(); \
  } while (false)

#define TRY(decl, ...) ATOLL_TRY_IMPL(ATOLL_CAT(try_, __LINE__), return, decl, __VA_ARGS__)
#define TRY_VOID(...) ATOLL_TRY_VOID_IMPL(ATOLL_CAT(try_, __LINE__), return, __VA_ARGS__)
#define CO_TRY(decl, ...) ATOLL_TRY_IMPL(ATOLL_CAT(try_, __LINE__), co_return, decl, __VA_ARGS__)
#define CO_TRY_VOID(...) ATOLL_TRY_VOID_IMPL(ATOLL_CAT(try_, __LINE__), co_return, __VA_ARGS__)
