// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace atl {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalid: return "invalid";
    case Code::kUnauthenticated: return "unauthenticated";
    case Code::kDenied: return "denied";
    case Code::kNotFound: return "not_found";
    case Code::kConflict: return "conflict";
    case Code::kExists: return "exists";
    case Code::kTooLarge: return "too_large";
    case Code::kExhausted: return "exhausted";
    case Code::kCancelled: return "cancelled";
    case Code::kInternal: return "internal";
    case Code::kUnsupported: return "unsupported";
    case Code::kUnavailable: return "unavailable";
    case Code::kDeadline: return "deadline";
    case Code::kNoSpace: return "no_space";
    case Code::kCorrupt: return "corrupt";
  }
  return "internal";
}

int http_status(Code code) {
  switch (code) {
    case Code::kInvalid: return 400;
    case Code::kUnauthenticated: return 401;
    case Code::kDenied: return 403;
    case Code::kNotFound: return 404;
    case Code::kConflict:
    case Code::kExists: return 409;
    case Code::kTooLarge: return 413;
    case Code::kExhausted: return 429;
    case Code::kCancelled: return 499;
    case Code::kInternal:
    case Code::kCorrupt: return 500;
    case Code::kUnsupported: return 501;
    case Code::kUnavailable: return 503;
    case Code::kDeadline: return 504;
    case Code::kNoSpace: return 507;
  }
  return 500;
}

namespace {
Code code_from_errno(int number) {
  switch (number) {
    case ENOENT: return Code::kNotFound;
    case EEXIST: return Code::kExists;
    case EACCES:
    case EPERM: return Code::kDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP: return Code::kInvalid;
    case ENOSPC:
    case EDQUOT: return Code::kNoSpace;
    case EBUSY:
    case ENOTEMPTY: return Code::kConflict;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: return Code::kUnavailable;
    case ETIMEDOUT: return Code::kDeadline;
    case ECANCELED: return Code::kCancelled;
    case ENOSYS:
    case EOPNOTSUPP: return Code::kUnsupported;
    case EFBIG: return Code::kTooLarge;
    default: return Code::kInternal;
  }
}
}  // namespace

Error Error::from_errno(int number, std::string_view operation) {
  char buffer[128];
  const char* text = strerror_r(number, buffer, sizeof buffer);  // GNU form; thread safe
  Error error(code_from_errno(number), fmt::format("{}: {}", operation, text));
  error.errno_ = number;
  return error;
}

}  // namespace atl
