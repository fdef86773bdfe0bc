// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/http/request_reader.h"

namespace phalanx::http {

// Takes the body of one request or answer out of a stream of bytes, by its length or by its chunks.
// Chunk extensions and trailer fields are read, bounded and forgotten: nothing of them is held, and
// none becomes a header field.
//
// Threads: one at a time.
// Memory: of the body what was not taken, which is also what `body_bytes_max` bounds.
class BodyReader {
 public:
  // Without `length` the body is chunked.
  BodyReader(std::optional<std::uint64_t> length, const RequestLimits& limits);

  // Tells how many of `bytes` belong to the body; all of them unless it is complete or refused.
  [[nodiscard]] std::size_t feed(std::string_view bytes);

  [[nodiscard]] bool complete() const { return state_ == State::kComplete; }
  [[nodiscard]] const std::optional<RequestReader::Refusal>& refusal() const { return refusal_; }
  [[nodiscard]] std::size_t bytes() const { return body_.size(); }
  // What has come since the last call.
  [[nodiscard]] Body take() { return std::exchange(body_, {}); }

 private:
  enum class State {
    kFixed,           // `left_` bytes are still to come
    kSize,            // digits of a chunk's size
    kSizeBlank,       // blanks between it and the ';' of an extension
    kExtension,       // behind that, up to the end of the line
    kSizeEnd,         // LF
    kData,            // `left_` bytes of the chunk are still to come
    kDataReturn,      // CR behind the chunk
    kDataEnd,         // LF
    kTrailerStart,    // first byte of a line behind the last chunk
    kTrailerName,     // inside such a line, in front of its colon
    kTrailer,         // behind it
    kTrailerLineEnd,  // LF
    kEnd,             // LF of the empty line
    kComplete
  };

  [[nodiscard]] std::size_t take_data(std::string_view bytes);
  void take_framing(char byte);
  void take_size(char byte);
  void end_size();
  void take_blank(char byte);
  void take_extension(char byte);
  void take_trailer_start(char byte);
  void take_trailer_name(char byte);
  void take_trailer(char byte);
  [[nodiscard]] bool counts_extension();
  [[nodiscard]] bool counts_trailer();
  void expect(char byte, char expected, State next);
  void refuse(int status, std::string message);

  RequestLimits limits_;
  State state_;
  std::uint64_t left_ = 0;  // of the body or the chunk
  int digits_ = 0;
  std::size_t extension_bytes_ = 0;  // of all chunks
  std::size_t trailer_bytes_ = 0;
  Body body_;
  std::optional<RequestReader::Refusal> refusal_;
};

}  // namespace phalanx::http
