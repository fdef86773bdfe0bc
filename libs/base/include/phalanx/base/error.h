// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace phalanx {

// What a failure means, numbered as in gRPC. The row of a code in error_traits() is the only place
// that says what follows from it: whether to retry, which HTTP status, which exit status.
enum class Code : int {
  kCancelled = 1,           // the client went away
  kInvalidArgument = 3,     // a request, flag, file or frame is malformed
  kDeadlineExceeded = 4,    // ours or the client's
  kNotFound = 5,            // model, route, file or tensor unknown
  kResourceExhausted = 8,   // queue, KV blocks, memory or descriptors are used up
  kFailedPrecondition = 9,  // wrong state: draining, wrong epoch, resident buffer missing
  kAborted = 10,            // the group lost a rank; the step must be done again
  kUnimplemented = 12,      // known, and not supported by this version
  kInternal = 13,           // a defect of ours
  kUnavailable = 14,        // the peer is not there or not ready
  kDataLoss = 15,  // truncated or contradictory data; a non-finite value; ranks that differ
  kPoisoned = 32,  // the request ends every process that computes it; not a code of gRPC
};

enum class Retry { kNever, kLater, kNow };

struct ErrorTraits {
  std::string_view name;  // "invalid_argument"
  Retry retry;            // may the same work be tried again?
  int http_status;        // for a client that has not been answered yet
  int exit_status;        // of a process that ends with it, sysexits numbering
};

// The row of `code`. Total: an unknown value gives the row of kInternal.
[[nodiscard]] const ErrorTraits& error_traits(Code code);

// A failure as a value: code, message, and the contexts it passed on its way up ("loading shard 3
// of 8: …").
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  // Puts "context: " before the message.
  [[nodiscard]] Error with(std::string_view context) &&;

  // "invalid_argument: message"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Error&, const Error&) = default;

 private:
  Code code_;
  std::string message_;
};

// Shorthands, so that a call site reads as a sentence.
[[nodiscard]] inline Error invalid_argument(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}
[[nodiscard]] inline Error internal_error(std::string message) {
  return {Code::kInternal, std::move(message)};
}
[[nodiscard]] inline Error unavailable(std::string message) {
  return {Code::kUnavailable, std::move(message)};
}
[[nodiscard]] inline Error data_loss(std::string message) {
  return {Code::kDataLoss, std::move(message)};
}
[[nodiscard]] inline Error not_found(std::string message) {
  return {Code::kNotFound, std::move(message)};
}
[[nodiscard]] inline Error resource_exhausted(std::string message) {
  return {Code::kResourceExhausted, std::move(message)};
}
[[nodiscard]] inline Error failed_precondition(std::string message) {
  return {Code::kFailedPrecondition, std::move(message)};
}
[[nodiscard]] inline Error aborted(std::string message) {
  return {Code::kAborted, std::move(message)};
}
[[nodiscard]] inline Error deadline_exceeded(std::string message) {
  return {Code::kDeadlineExceeded, std::move(message)};
}
[[nodiscard]] inline Error unimplemented(std::string message) {
  return {Code::kUnimplemented, std::move(message)};
}

// "operation: No such file or directory (errno 2)", with the code that the errno value means here.
[[nodiscard]] Error errno_error(std::string_view operation, int errno_value);

}  // namespace phalanx
