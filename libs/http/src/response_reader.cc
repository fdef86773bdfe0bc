// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/response_reader.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "phalanx/base/check.h"

#include "asio.h"
#include "body_reader.h"

namespace phalanx::http {
namespace {

namespace beast_http = boost::beast::http;
using ResponseParser = beast_http::response_parser<beast_http::string_body>;

Error not_http(const std::string& why) {
  return data_loss("the answer is not a valid HTTP response: " + why);
}

}  // namespace

struct ResponseReader::Impl {
  Impl(bool head, std::size_t header_max) : answer_to_head(head), header_bytes_max(header_max) {
    restart();
  }

  void restart() {
    parser.emplace();
    parser->skip(answer_to_head);
    parser->header_limit(static_cast<std::uint32_t>(header_bytes_max));
    // The body is handed on as it comes and never held, so it needs no limit. Not boost::none,
    // which Beast 1.74 takes for zero when there is a content-length.
    parser->body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  // Beast reads whatever ends with its length or with the connection. Its chunks are not read: it
  // asserts that behind the last one at least two bytes come at once.
  void read_head() {
    const auto& message = parser->get();
    if (parser->chunked() && !parser->is_done()) {
      chunks.emplace(std::nullopt,
                     RequestLimits{.header_bytes_max = header_bytes_max,
                                   .body_bytes_max = std::numeric_limits<std::size_t>::max()});
    }
    parser->eager(true);
    status = message.result_int();
    keep_alive = parser->keep_alive() && !message.need_eof();
    for (const auto& field : message) {
      headers.add(std::string(field.name_string().data(), field.name_string().size()),
                  std::string(field.value().data(), field.value().size()));
    }
    has_head = true;
  }

  bool answer_to_head;
  std::size_t header_bytes_max;
  std::optional<ResponseParser> parser;
  std::optional<BodyReader> chunks;
  bool has_head = false;
  bool keep_alive = false;
  unsigned status = 0;
  Headers headers;
};

ResponseReader::ResponseReader(bool answer_to_head, std::size_t header_bytes_max)
    : impl_(std::make_unique<Impl>(answer_to_head, header_bytes_max)) {}
ResponseReader::~ResponseReader() = default;

Result<std::size_t> ResponseReader::feed(std::string_view bytes) {
  std::size_t used = 0;
  SystemError error;
  while (used < bytes.size() && !complete()) {
    if (impl_->chunks) {
      used += impl_->chunks->feed(bytes.substr(used));
      if (impl_->chunks->refusal()) {
        return not_http(impl_->chunks->refusal()->message);
      }
      continue;
    }
    const std::size_t taken =
        impl_->parser->put(asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    used += taken;
    if (error && error != beast_http::error::need_more) {
      return not_http(error.message());
    }
    if (!impl_->has_head && impl_->parser->is_header_done()) {
      if (impl_->parser->get().result_int() / 100 == 1) {
        impl_->restart();
        continue;
      }
      impl_->read_head();
      continue;
    }
    if (error || taken == 0) {
      return used;
    }
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
  SystemError error;
  impl_->parser->put_eof(error);
  if (error) {
    return data_loss("the connection was closed in the middle of the answer's body");
  }
  return ok();
}

bool ResponseReader::has_head() const {
  return impl_->has_head;
}

bool ResponseReader::complete() const {
  return impl_->has_head && (impl_->chunks ? impl_->chunks->complete() : impl_->parser->is_done());
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
  return impl_->chunks ? impl_->chunks->take().take_text()
                       : std::exchange(impl_->parser->get().body(), {});
}

}  // namespace phalanx::http
