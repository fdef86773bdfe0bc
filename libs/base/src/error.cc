// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/error.h"

#include <cerrno>
#include <cstring>

namespace phalanx {

const ErrorTraits& error_traits(Code code) {
  static constexpr ErrorTraits kCancelled{"cancelled", Retry::kNever, 499, 0};
  static constexpr ErrorTraits kInvalid{"invalid_argument", Retry::kNever, 400, 64};
  static constexpr ErrorTraits kDeadline{"deadline_exceeded", Retry::kNever, 504, 75};
  static constexpr ErrorTraits kNotFound{"not_found", Retry::kNever, 404, 66};
  static constexpr ErrorTraits kExhausted{"resource_exhausted", Retry::kLater, 503, 75};
  static constexpr ErrorTraits kPrecondition{"failed_precondition", Retry::kLater, 409, 78};
  static constexpr ErrorTraits kAborted{"aborted", Retry::kNow, 503, 77};
  static constexpr ErrorTraits kUnimplemented{"unimplemented", Retry::kNever, 501, 64};
  static constexpr ErrorTraits kInternal{"internal", Retry::kNever, 500, 70};
  static constexpr ErrorTraits kUnavailable{"unavailable", Retry::kNow, 503, 69};
  static constexpr ErrorTraits kDataLoss{"data_loss", Retry::kNever, 500, 65};
  static constexpr ErrorTraits kPoisoned{"poisoned_request", Retry::kNever, 500, 70};
  switch (code) {
    case Code::kCancelled:
      return kCancelled;
    case Code::kInvalidArgument:
      return kInvalid;
    case Code::kDeadlineExceeded:
      return kDeadline;
    case Code::kNotFound:
      return kNotFound;
    case Code::kResourceExhausted:
      return kExhausted;
    case Code::kFailedPrecondition:
      return kPrecondition;
    case Code::kAborted:
      return kAborted;
    case Code::kUnimplemented:
      return kUnimplemented;
    case Code::kInternal:
      return kInternal;
    case Code::kUnavailable:
      return kUnavailable;
    case Code::kDataLoss:
      return kDataLoss;
    case Code::kPoisoned:
      return kPoisoned;
  }
  return kInternal;
}

Error Error::with(std::string_view context) && {
  return {code_, std::string(context) + ": " + message_};
}

std::string Error::to_string() const {
  return std::string(error_traits(code_).name) + ": " + message_;
}

namespace {

Code code_of_errno(int value) {
  switch (value) {
    case ENOENT:
    case ESRCH:
    case ELOOP:
      return Code::kNotFound;
    case EINVAL:
    case E2BIG:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
      return Code::kInvalidArgument;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case EAGAIN:
      return Code::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EADDRINUSE:
      return Code::kFailedPrecondition;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
      return Code::kUnavailable;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Error errno_error(std::string_view operation, int errno_value) {
  char buffer[128];
  const char* text = strerror_r(errno_value, buffer, sizeof buffer);
  return {code_of_errno(errno_value),
          std::string(operation) + ": " + text + " (errno " + std::to_string(errno_value) + ")"};
}

}  // namespace phalanx
