// SPDX-License-Identifier: Apache-2.0
#include "body_reader.h"

#include <algorithm>
#include <utility>

#include "characters.h"
#include "hex_digit.h"
#include "shown_text.h"

namespace phalanx::http {
namespace {

constexpr int kMaxSizeDigits = 16;
constexpr std::string_view kTrailerForm =
    "a trailer line must be \"name: value\" without spaces in the name";

std::string chunk_fault(std::string_view expected, char byte) {
  return std::string(expected) + "; came " + shown_byte(byte);
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
    case State::kSizeBlank:
      return take_blank(byte);
    case State::kExtension:
      return take_extension(byte);
    case State::kSizeEnd:
      return byte == '\n' ? end_size()
                          : refuse(400, chunk_fault("a chunk's size must end in CR LF", byte));
    case State::kDataReturn:
      return expect(byte, '\r', State::kDataEnd);
    case State::kDataEnd:
      return expect(byte, '\n', State::kSize);
    case State::kTrailerStart:
      return take_trailer_start(byte);
    case State::kTrailerName:
      return take_trailer_name(byte);
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
  } else if (digits_ > 0 && (byte == ';' || is_blank(byte))) {
    take_blank(byte);
  } else {
    refuse(400,
           chunk_fault("a chunk must begin with its size in at most 16 hexadecimal digits", byte));
  }
}

// RFC 9112 §7.1.1 has blanks here. In front of the end of the line they would be something else.
void BodyReader::take_blank(char byte) {
  if (byte == ';') {
    state_ = State::kExtension;
  } else if (!is_blank(byte)) {
    refuse(400, chunk_fault("blanks behind a chunk's size must be followed by ';'", byte));
  } else if (counts_extension()) {
    state_ = State::kSizeBlank;
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
  } else if (!is_field_character(byte)) {
    refuse(400, chunk_fault("a chunk extension must hold no control byte", byte));
  } else {
    (void)counts_extension();
  }
}

bool BodyReader::counts_extension() {
  if (++extension_bytes_ > limits_.header_bytes_max) {
    refuse(400,
           "the chunk extensions are larger than " + std::to_string(limits_.header_bytes_max) +
               " bytes");
  }
  return !refusal_;
}

void BodyReader::take_trailer_start(char byte) {
  if (byte == '\r') {
    state_ = State::kEnd;
  } else if (!is_token_character(byte)) {
    refuse(400, chunk_fault(kTrailerForm, byte));
  } else if (counts_trailer()) {
    state_ = State::kTrailerName;
  }
}

void BodyReader::take_trailer_name(char byte) {
  if (byte != ':' && !is_token_character(byte)) {
    refuse(400, chunk_fault(kTrailerForm, byte));
  } else if (counts_trailer() && byte == ':') {
    state_ = State::kTrailer;
  }
}

void BodyReader::take_trailer(char byte) {
  if (byte == '\r') {
    state_ = State::kTrailerLineEnd;
  } else if (!is_field_character(byte)) {
    refuse(400,
           chunk_fault("a trailer line must end in CR LF and hold no other control byte", byte));
  } else {
    (void)counts_trailer();
  }
}

bool BodyReader::counts_trailer() {
  if (++trailer_bytes_ > limits_.header_bytes_max) {
    refuse(431,
           "the trailer fields are larger than " + std::to_string(limits_.header_bytes_max) +
               " bytes");
  }
  return !refusal_;
}

void BodyReader::expect(char byte, char expected, State next) {
  if (byte != expected) {
    return refuse(400, chunk_fault("a chunk or trailer must end in CR LF", byte));
  }
  state_ = next;
}

void BodyReader::refuse(int status, std::string message) {
  refusal_ = {status, std::move(message)};
}

}  // namespace phalanx::http
