// SPDX-License-Identifier: Apache-2.0
#include "body_reader.h"

#include <algorithm>
#include <utility>

#include "hex_digit.h"

namespace phalanx::http {
namespace {

constexpr int kMaxSizeDigits = 16;

// May stand in a chunk extension or a trailer field.
bool is_field_byte(char byte) {
  return byte == '\t' || (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7F);
}

}  // namespace

BodyReader::BodyReader(std::optional<std::uint64_t> length, const RequestLimits& limits)
    : limits_(limits), state_(length ? State::kFixed : State::kSize), left_(length.value_or(0)) {
  if (!length) {
    return;
  }
  if (*length > limits_.body_bytes_max) {
    refuse(413, "the body is larger than " + std::to_string(limits_.body_bytes_max) + " bytes");
    return;
  }
  if (*length == 0) {
    state_ = State::kComplete;
  }
}

std::size_t BodyReader::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && !complete() && !refusal_) {
    if (state_ == State::kFixed || state_ == State::kData) {
      used += take_data(bytes.substr(used));
    } else {
      take_framing(bytes[used++]);
    }
  }
  return used;
}

std::size_t BodyReader::take_data(std::string_view bytes) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  body_.append(bytes.substr(0, count));
  left_ -= count;
  if (left_ == 0) {
    state_ = state_ == State::kFixed ? State::kComplete : State::kDataReturn;
  }
  return count;
}

void BodyReader::take_framing(char byte) {
  switch (state_) {
    case State::kSize:
      return take_size(byte);
    case State::kExtension:
      return take_extension(byte);
    case State::kSizeEnd:
      return byte == '\n' ? end_size() : refuse(400, "a chunk's size does not end in CRLF");
    case State::kDataReturn:
      return expect(byte, '\r', State::kDataEnd);
    case State::kDataEnd:
      return expect(byte, '\n', State::kSize);
    case State::kTrailerStart:
    case State::kTrailer:
      return take_trailer(byte);
    case State::kTrailerLineEnd:
      return expect(byte, '\n', State::kTrailerStart);
    case State::kEnd:
      return expect(byte, '\n', State::kComplete);
    case State::kFixed:
    case State::kData:
    case State::kComplete:
      return;
  }
}

void BodyReader::take_size(char byte) {
  const int digit = hex_digit(byte);
  if (digit >= 0 && digits_ < kMaxSizeDigits) {
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
    ++digits_;
  } else if (digits_ > 0 && byte == '\r') {
    state_ = State::kSizeEnd;
  } else if (digits_ > 0 && byte == ';') {
    state_ = State::kExtension;
  } else {
    refuse(400, "a chunk does not begin with its size in hexadecimal digits");
  }
}

void BodyReader::end_size() {
  digits_ = 0;
  if (left_ > limits_.body_bytes_max || body_.size() > limits_.body_bytes_max - left_) {
    return refuse(413,
                  "the body is larger than " + std::to_string(limits_.body_bytes_max) + " bytes");
  }
  state_ = left_ == 0 ? State::kTrailerStart : State::kData;
}

void BodyReader::take_extension(char byte) {
  if (byte == '\r') {
    state_ = State::kSizeEnd;
  } else if (!is_field_byte(byte)) {
    refuse(400, "a chunk extension holds a control byte");
  } else if (++extension_bytes_ > limits_.header_bytes_max) {
    refuse(400,
           "the chunk extensions are larger than " + std::to_string(limits_.header_bytes_max) +
               " bytes");
  }
}

void BodyReader::take_trailer(char byte) {
  if (byte == '\r') {
    state_ = state_ == State::kTrailerStart ? State::kEnd : State::kTrailerLineEnd;
    return;
  }
  state_ = State::kTrailer;
  if (!is_field_byte(byte)) {
    refuse(400, "a trailer field holds a control byte");
  } else if (++trailer_bytes_ > limits_.header_bytes_max) {
    refuse(431,
           "the trailer fields are larger than " + std::to_string(limits_.header_bytes_max) +
               " bytes");
  }
}

void BodyReader::expect(char byte, char expected, State next) {
  if (byte != expected) {
    return refuse(400, "a chunk or trailer does not end in CRLF");
  }
  state_ = next;
}

void BodyReader::refuse(int status, std::string message) {
  refusal_ = {status, std::move(message)};
}

}  // namespace phalanx::http
