// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/response_reader.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "phalanx/base/check.h"

#include "asio.h"
#include "body_reader.h"
#include "shown_text.h"

namespace phalanx::http {
namespace {

namespace beast_http = boost::beast::http;
using HeadParser = beast_http::response_parser<beast_http::empty_body>;

Error not_http(const std::string& why) {
  return data_loss("the answer is not a valid HTTP response: " + why);
}

bool never_has_body(unsigned status) {
  return status == 204 || status == 304;
}

}  // namespace

// Beast reads heads only. Of a body it would reserve whatever length the head claims, and behind
// the last chunk it asserts that at least two bytes come at once.
struct ResponseReader::Impl {
  Impl(bool head, std::size_t header_max) : answer_to_head(head), header_bytes_max(header_max) {
    restart();
  }

  void restart() {
    parser.emplace();
    parser->skip(true);
    parser->header_limit(static_cast<std::uint32_t>(header_bytes_max));
    head_bytes = 0;
  }

  // Where codings are others, or not known, nobody knows where the body ends.
  [[nodiscard]] Status check_codings() const {
    const auto& message = parser->get();
    const auto name = beast_http::field::transfer_encoding;
    const auto value = message[name];
    const std::string_view codings(value.data(), value.size());
    if (message.count(name) == 0 ||
        (message.count(name) == 1 && equal_ignoring_case(codings, "chunked"))) {
      return ok();
    }
    return not_http("transfer-encoding: only chunked is supported; came \"" + shown_text(codings) +
                    "\"");
  }

  void take_head() {
    const auto& message = parser->get();
    status = message.result_int();
    keep_alive = parser->keep_alive() && !message.need_eof();
    for (const auto& field : message) {
      headers.add(std::string(field.name_string().data(), field.name_string().size()),
                  std::string(field.value().data(), field.value().size()));
    }
    if (answer_to_head || never_has_body(status)) {
      remaining = 0;
    } else if (parser->chunked()) {
      chunks.emplace(std::nullopt,
                     RequestLimits{.header_bytes_max = header_bytes_max,
                                   .body_bytes_max = std::numeric_limits<std::size_t>::max()});
    } else {
      to_the_end = !parser->content_length();
      remaining = parser->content_length().value_or(0);
    }
    has_head = true;
  }

  Result<std::size_t> feed_head(std::string_view bytes) {
    SystemError error;
    const std::size_t used = parser->put(asio::const_buffer(bytes.data(), bytes.size()), error);
    head_bytes += used;
    if (head_bytes > header_bytes_max || error == beast_http::error::header_limit) {
      return not_http("its header is larger than " + std::to_string(header_bytes_max) + " bytes");
    }
    if (error && error != beast_http::error::need_more) {
      return not_http(error.message());
    }
    if (!parser->is_header_done()) {
      return used;
    }
    const unsigned its_status = parser->get().result_int();
    if (its_status == 101) {
      return not_http("it changes to a protocol that nobody asked for");
    }
    if (its_status / 100 == 1) {
      restart();
    } else {
      PHALANX_RETURN_IF_ERROR(check_codings());
      take_head();
    }
    return used;
  }

  Result<std::size_t> feed_body(std::string_view bytes) {
    if (chunks) {
      const std::size_t used = chunks->feed(bytes);
      if (chunks->refusal()) {
        return not_http(chunks->refusal()->message);
      }
      return used;
    }
    const std::size_t used =
        to_the_end ? bytes.size() : std::min<std::uint64_t>(bytes.size(), remaining);
    body.append(bytes.substr(0, used));
    remaining -= to_the_end ? 0 : used;
    return used;
  }

  bool answer_to_head;
  std::size_t header_bytes_max;
  std::optional<HeadParser> parser;
  std::size_t head_bytes = 0;  // that the parser has used up: its own limit is of what is left
  bool has_head = false;
  bool keep_alive = false;
  unsigned status = 0;
  Headers headers;
  std::optional<BodyReader> chunks;
  bool to_the_end = false;      // of the connection goes the body
  std::uint64_t remaining = 0;  // bytes of a body that is neither that nor in chunks
  std::string body;             // that nobody has taken yet
};

ResponseReader::ResponseReader(bool answer_to_head, std::size_t header_bytes_max)
    : impl_(std::make_unique<Impl>(answer_to_head, header_bytes_max)) {}
ResponseReader::~ResponseReader() = default;

Result<std::size_t> ResponseReader::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && !complete()) {
    const std::string_view rest = bytes.substr(used);
    PHALANX_TRY(const std::size_t taken,
                impl_->has_head ? impl_->feed_body(rest) : impl_->feed_head(rest));
    if (taken == 0) {
      break;
    }
    used += taken;
  }
  return used;
}

Status ResponseReader::feed_end() {
  if (complete()) {
    return ok();
  }
  if (!impl_->has_head) {
    return data_loss("the connection was closed before the answer's header was complete");
  }
  if (!impl_->to_the_end) {
    return data_loss("the connection was closed in the middle of the answer's body");
  }
  impl_->to_the_end = false;
  return ok();
}

bool ResponseReader::has_head() const {
  return impl_->has_head;
}

bool ResponseReader::complete() const {
  return impl_->has_head && !impl_->to_the_end &&
         (impl_->chunks ? impl_->chunks->complete() : impl_->remaining == 0);
}

int ResponseReader::status() const {
  PHALANX_CHECK(impl_->has_head, "status() before the header is complete");
  return static_cast<int>(impl_->status);
}

const Headers& ResponseReader::headers() const {
  return impl_->headers;
}

bool ResponseReader::keep_alive() const {
  return impl_->keep_alive;
}

std::string ResponseReader::take_body() {
  return impl_->chunks ? impl_->chunks->take().take_text() : std::exchange(impl_->body, {});
}

}  // namespace phalanx::http
