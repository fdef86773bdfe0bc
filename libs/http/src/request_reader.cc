// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/request_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include "phalanx/base/check.h"

#include "absolute_target.h"
#include "asio.h"
#include "body_reader.h"
#include "hex_digit.h"

namespace phalanx::http {
namespace {

namespace beast_http = boost::beast::http;
using RequestParser = beast_http::request_parser<beast_http::empty_body>;

std::string text(boost::beast::string_view view) {
  return {view.data(), view.size()};
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

// Name or address and port, as a URL has them.
bool is_host(boost::beast::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7F &&
           std::string_view("/?#@,\\\"<>").find(c) == std::string_view::npos;
  });
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
    return {505, "expected HTTP/1.1 or HTTP/1.0 at the end of a line that ends with CR LF"};
  }
  if (error == beast_http::error::bad_transfer_encoding) {
    return {400, "expected Content-Length or Transfer-Encoding, came both, or a wrong one"};
  }
  return {400, "not an HTTP request: " + error.message()};
}

// Watches the lines of a header as they are used up. A line that goes on the one before it
// (obs-fold) is read as one field here and as two by others, so it is refused; a limit on fields
// bounds what a header of many tiny ones costs.
class HeaderLines {
 public:
  void take(std::string_view bytes) {
    for (const char byte : bytes) {
      folded_ = folded_ || (at_start_ && lines_ > 0 && (byte == ' ' || byte == '\t'));
      at_start_ = byte == '\n';
      lines_ += at_start_ ? 1U : 0U;
    }
  }
  [[nodiscard]] bool folded() const { return folded_; }
  [[nodiscard]] std::size_t lines() const { return lines_; }

 private:
  std::size_t lines_ = 0;
  bool at_start_ = false;
  bool folded_ = false;
};

}  // namespace

struct RequestReader::Impl {
  Impl(RequestLimits request_limits, HeadCheck head_check)
      : limits(request_limits), check(std::move(head_check)) {
    restart();
  }

  void restart() {
    parser.emplace();
    parser->header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
    parser->body_limit(limits.body_bytes_max);
    body.reset();
    lines = {};
    request = {};
    state = State::kHeader;
    started = false;
    continue_taken = false;
  }

  void refuse(int status, std::string message) {
    refusal = {status, std::move(message)};
    state = State::kRefused;
  }

  [[nodiscard]] std::size_t feed_header(std::string_view bytes) {
    SystemError error;
    const std::size_t used = parser->put(asio::const_buffer(bytes.data(), bytes.size()), error);
    lines.take(bytes.substr(0, used));
    if (error && error != beast_http::error::need_more) {
      const Refusal why = refusal_of(error, limits);
      refuse(why.status, why.message);
    } else if (lines.folded()) {
      refuse(400, "a header field goes on in a second line, which HTTP/1.1 forbids");
    } else if (lines.lines() > limits.header_fields_max + 2) {  // and the first line and the last
      refuse(431,
             "there are more than " + std::to_string(limits.header_fields_max) + " header fields");
    } else if (parser->is_header_done()) {
      finish_header();
    }
    return used;
  }

  void finish_header() {
    check_framing();
    if (state != State::kRefused) {
      make_head();
    }
    if (state != State::kRefused && check) {
      if (auto why = check(request)) {
        refuse(why->status, std::move(why->message));
      }
    }
    if (state == State::kRefused) {
      return;
    }
    const auto length = parser->content_length();
    body.emplace(
        parser->chunked() ? std::nullopt : std::optional<std::uint64_t>(length.value_or(0)),
        limits);
    state = State::kBody;
    follow_body();
  }

  void follow_body() {
    if (body->refusal()) {
      refuse(body->refusal()->status, body->refusal()->message);
    } else if (body->complete()) {
      state = State::kComplete;
    }
  }

  // What Beast lets through and must not reach a handler. Two readers of one stream that disagree
  // about its framing are how requests are smuggled, so anything unusual there is refused.
  void check_framing() {
    const auto& message = parser->get();
    const std::size_t hosts = message.count(beast_http::field::host);
    if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
      return refuse(400, "an HTTP/1.1 request must have exactly one Host field");
    }
    if (hosts == 1 && !is_host(message[beast_http::field::host])) {
      return refuse(400, "the Host field must be a name or an address, with or without a port");
    }
    if (message.count(beast_http::field::content_length) > 1) {
      return refuse(400, "a request must have at most one Content-Length field");
    }
    const std::size_t encodings = message.count(beast_http::field::transfer_encoding);
    if (encodings == 0) {
      return;
    }
    if (message.version() < 11) {
      return refuse(400, "Transfer-Encoding is not part of HTTP/1.0");
    }
    if (encodings > 1 ||
        !equal_ignoring_case(text(message[beast_http::field::transfer_encoding]), "chunked")) {
      return refuse(501, "transfer-encoding: only chunked is supported");
    }
  }

  void make_head() {
    const auto& message = parser->get();
    request.method = text(message.method_string());
    request.target = text(message.target());
    std::string_view target = request.target;
    const auto authority = authority_of_target(target);
    if (!target.starts_with('/') && !authority && target != "*") {
      return refuse(400, "the request target must be a path");
    }
    if (authority) {
      // It stands above the Host field, so it must be what that has to be.
      if (!is_host({authority->data(), authority->size()})) {
        return refuse(400, "the request target must name a host, with or without a port");
      }
      target.remove_prefix(kAbsoluteScheme.size() + authority->size());
    }
    const std::size_t question = target.find('?');
    auto path = percent_decoded(target.substr(0, question));
    if (!path) {
      return refuse(400, "the request target has a malformed %-escape");
    }
    request.path = path->empty() ? "/" : *std::move(path);
    request.query = question == std::string_view::npos ? "" : target.substr(question + 1);
    for (const auto& field : message) {
      request.headers.add(text(field.name_string()), text(field.value()));
    }
  }

  RequestLimits limits;
  HeadCheck check;
  std::optional<RequestParser> parser;
  std::optional<BodyReader> body;
  HeaderLines lines;
  Request request;  // its body comes last
  State state = State::kHeader;
  Refusal refusal;
  bool started = false;
  bool continue_taken = false;
};

RequestReader::RequestReader(RequestLimits limits, HeadCheck check)
    : impl_(std::make_unique<Impl>(limits, std::move(check))) {}
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
  if (impl_->state == State::kHeader && used < bytes.size()) {
    used += impl_->feed_header(bytes.substr(used));
  }
  if (impl_->state == State::kBody) {
    used += impl_->body->feed(bytes.substr(used));
    impl_->follow_body();
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

Request RequestReader::head() const {
  Request head;
  const auto& message = impl_->parser->get();
  head.method = text(message.method_string());
  head.target = text(message.target());
  for (const auto& field : message) {
    head.headers.add(text(field.name_string()), text(field.value()));
  }
  return head;
}

bool RequestReader::is_head() const {
  return impl_->parser->get().method() == beast_http::verb::head;
}

std::size_t RequestReader::body_bytes_max() const {
  const std::size_t most = impl_->limits.body_bytes_max;
  const auto length = impl_->parser->content_length();
  return impl_->parser->chunked()
             ? most
             : static_cast<std::size_t>(std::min<std::uint64_t>(length.value_or(0), most));
}

std::size_t RequestReader::body_bytes() const {
  return impl_->body ? impl_->body->bytes() : 0;
}

bool RequestReader::keep_alive() const {
  // Of all Connection fields; the message looks at one. A client of HTTP/1.0 that says both stays
  // by the parser, and leaves by the protocol.
  const auto fields = impl_->parser->get().equal_range(beast_http::field::connection);
  const bool closes = std::any_of(fields.first, fields.second, [](const auto& field) {
    return beast_http::token_list(field.value()).exists("close");
  });
  return !closes && impl_->parser->keep_alive();
}

bool RequestReader::is_http_1_1() const {
  return impl_->parser->get().version() >= 11;
}

Body RequestReader::take_body() {
  return impl_->body ? impl_->body->take() : Body();
}

Request RequestReader::take() {
  PHALANX_CHECK(impl_->state == State::kComplete, "take() without a complete request");
  Request request = std::move(impl_->request);
  request.body = impl_->body->take();
  impl_->restart();
  return request;
}

}  // namespace phalanx::http
