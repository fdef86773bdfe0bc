// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/http/request_reader.h"

namespace phalanx::http {

// The first line of a request, checked byte by byte before a parser sees it: the parser takes a
// line that is malformed for one of another version, and HTTP/1.2, which must be read as HTTP/1.1
// (RFC 9110 §2.5), for neither.
//
// Threads: one at a time.
// Memory: none; the line stays with the caller until it is complete.
class RequestLine {
 public:
  // `bytes` begin where the line does, and hold at least what they held the last time.
  void take(std::string_view bytes, const RequestLimits& limits);

  // Its CR LF has come, and nothing is wrong with it.
  [[nodiscard]] bool complete() const { return part_ == Part::kComplete; }
  [[nodiscard]] const std::optional<RequestReader::Refusal>& refusal() const { return refusal_; }

  // As far as it has come.
  [[nodiscard]] bool is_head() const { return is_head_; }

  // Bytes of it that were read, at the end with CR LF.
  [[nodiscard]] std::size_t size() const { return at_; }

  // If it says HTTP/1.2 or above: the same line of HTTP/1.1. `bytes` as for take().
  [[nodiscard]] std::optional<std::string> as_http_1_1(std::string_view bytes) const;

 private:
  enum class Part { kMethod, kTarget, kVersion, kEnd, kComplete };

  [[nodiscard]] bool fits(std::string_view bytes);
  [[nodiscard]] bool fits_version(char byte);
  void finish(std::string_view bytes);
  void refuse(int status, std::string message);

  Part part_ = Part::kMethod;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  // of the part
  bool is_head_ = false;
  std::optional<RequestReader::Refusal> refusal_;
};

}  // namespace phalanx::http
