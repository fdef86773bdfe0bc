// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/request_reader.h"

#include <optional>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "phalanx/base/check.h"

#include "asio.h"

namespace phalanx::http {
namespace {

namespace beast_http = boost::beast::http;
using Parser = beast_http::request_parser<beast_http::string_body>;

std::string text(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Nothing if a '%' is not followed by two digits, or stands for NUL.
std::optional<std::string> percent_decoded(std::string_view in) {
  std::string out;
  out.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] != '%') {
      out.push_back(in[i]);
      continue;
    }
    const int high = i + 2 < in.size() ? hex_digit(in[i + 1]) : -1;
    const int low = i + 2 < in.size() ? hex_digit(in[i + 2]) : -1;
    const int value = high < 0 || low < 0 ? 0 : high * 16 + low;
    if (value == 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

RequestReader::Refusal refusal_of(const boost::system::error_code& error,
                                  const RequestLimits& limits) {
  if (error == beast_http::error::header_limit || error == beast_http::error::buffer_overflow) {
    return {431,
            "the request line and header fields are larger than " +
                std::to_string(limits.header_bytes_max) + " bytes"};
  }
  if (error == beast_http::error::body_limit) {
    return {413, "the body is larger than " + std::to_string(limits.body_bytes_max) + " bytes"};
  }
  if (error == beast_http::error::bad_version) {
    return {505, "expected HTTP/1.1 or HTTP/1.0"};
  }
  return {400, "not an HTTP request: " + error.message()};
}

}  // namespace

struct RequestReader::Impl {
  explicit Impl(RequestLimits request_limits) : limits(request_limits) { restart(); }

  void restart() {
    parser.emplace();
    parser->eager(true);
    parser->header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
    parser->body_limit(limits.body_bytes_max);
    state = State::kHeader;
    started = false;
    continue_taken = false;
  }

  void refuse(int status, std::string message) {
    refusal = {status, std::move(message)};
    state = State::kRefused;
  }

  // What Beast lets through and must not reach a handler. Two readers of one stream that disagree
  // about its framing are how requests are smuggled, so anything unusual there is refused.
  void check_header() {
    const auto& message = parser->get();
    if (message.count(beast_http::field::host) != 1 && message.version() >= 11) {
      return refuse(400, "an HTTP/1.1 request must have exactly one Host field");
    }
    const auto encoding = message.find(beast_http::field::transfer_encoding);
    if (encoding != message.end() && !equal_ignoring_case(text(encoding->value()), "chunked")) {
      return refuse(501, "transfer-encoding: only chunked is supported");
    }
    std::string_view target{message.target().data(), message.target().size()};
    if (!target.starts_with('/') && !target.starts_with("http://") && target != "*") {
      return refuse(400, "the request target must be a path");
    }
    if (!percent_decoded(target.substr(0, target.find('?')))) {
      return refuse(400, "the request target has a malformed %-escape");
    }
  }

  RequestLimits limits;
  std::optional<Parser> parser;
  State state = State::kHeader;
  Refusal refusal;
  bool started = false;
  bool continue_taken = false;
};

RequestReader::RequestReader(RequestLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestReader::~RequestReader() = default;

std::size_t RequestReader::feed(std::string_view bytes) {
  std::size_t used = 0;
  if (impl_->state == State::kComplete || impl_->state == State::kRefused) {
    return used;
  }
  // Some clients send an empty line behind a body.
  while (!impl_->started && bytes.substr(used).starts_with("\r\n")) {
    used += 2;
  }
  if (!impl_->started && (used == bytes.size() || bytes.substr(used) == "\r")) {
    return used;
  }
  impl_->started = true;
  SystemError error;
  while (used < bytes.size() && !impl_->parser->is_done()) {
    const std::size_t taken =
        impl_->parser->put(asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    used += taken;
    if (impl_->state == State::kHeader && impl_->parser->is_header_done()) {
      impl_->state = State::kBody;
      impl_->check_header();
    }
    if (impl_->state == State::kRefused || error == beast_http::error::need_more ||
        (!error && taken == 0)) {
      return used;
    }
    if (error) {
      const Refusal refusal = refusal_of(error, impl_->limits);
      impl_->refuse(refusal.status, refusal.message);
      return used;
    }
  }
  if (impl_->parser->is_done()) {
    impl_->state = State::kComplete;
  }
  return used;
}

RequestReader::State RequestReader::state() const {
  return impl_->state;
}

bool RequestReader::started() const {
  return impl_->started;
}

const RequestReader::Refusal& RequestReader::refusal() const {
  return impl_->refusal;
}

bool RequestReader::take_expects_continue() {
  if (impl_->state != State::kBody || impl_->continue_taken || !is_http_1_1()) {
    return false;
  }
  const auto field = impl_->parser->get().find(beast_http::field::expect);
  impl_->continue_taken = field != impl_->parser->get().end() &&
                          equal_ignoring_case(text(field->value()), "100-continue");
  return impl_->continue_taken;
}

std::size_t RequestReader::body_bytes() const {
  return impl_->parser->get().body().size();
}

bool RequestReader::keep_alive() const {
  return impl_->parser->get().keep_alive();
}

bool RequestReader::is_http_1_1() const {
  return impl_->parser->get().version() >= 11;
}

Request RequestReader::take() {
  PHALANX_CHECK(impl_->state == State::kComplete, "take() without a complete request");
  auto message = impl_->parser->release();
  Request request;
  request.method = text(message.method_string());
  request.target = text(message.target());
  std::string_view target = request.target;
  if (target.starts_with("http://")) {
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const std::size_t question = target.find('?');
  request.path = percent_decoded(target.substr(0, question)).value_or("");
  request.query = question == std::string_view::npos ? "" : target.substr(question + 1);
  for (const auto& field : message) {
    request.headers.add(text(field.name_string()), text(field.value()));
  }
  request.body = std::move(message.body());
  impl_->restart();
  return request;
}

}  // namespace phalanx::http
