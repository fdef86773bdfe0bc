// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/http/request_reader.h"

namespace phalanx::http {

// The lines of a header behind its first one, checked byte by byte before a parser sees any of
// them: the parser refuses a malformed line at once or waits for the end of the header, as the
// bytes happen to come.
//
// Threads: one at a time.
// Memory: none; the lines stay with the caller until they are complete.
class FieldLines {
 public:
  // `bytes` begin where the first field does, behind so many of the header, and hold at least what
  // they held the last time.
  void take(std::string_view bytes, std::size_t before, const RequestLimits& limits);

  // The empty line has come, and nothing is wrong.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const std::optional<RequestReader::Refusal>& refusal() const { return refusal_; }

  // Bytes that were read, at the end with the empty line; those of the lines that are complete.
  [[nodiscard]] std::size_t size() const { return at_; }
  [[nodiscard]] std::size_t complete_lines() const { return line_; }

 private:
  void step(std::string_view bytes, const RequestLimits& limits);
  void end_line(const RequestLimits& limits);
  void refuse(int status, std::string message);

  std::size_t at_ = 0;
  std::size_t line_ = 0;  // where it begins
  std::size_t fields_ = 0;
  bool returned_ = false;  // its CR has come
  bool complete_ = false;
  std::optional<RequestReader::Refusal> refusal_;
};

}  // namespace phalanx::http
