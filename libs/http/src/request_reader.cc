// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/request_reader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include "phalanx/base/check.h"

#include "absolute_target.h"
#include "asio.h"
#include "authority.h"
#include "body_reader.h"
#include "characters.h"
#include "field_faults.h"
#include "field_lines.h"
#include "hex_digit.h"
#include "list_members.h"
#include "request_line.h"
#include "shown_text.h"

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

std::vector<std::string> members_of(const RequestParser::value_type& message,
                                    beast_http::field name) {
  std::vector<std::string> members;
  const auto fields = message.equal_range(name);
  std::for_each(fields.first, fields.second, [&](const auto& field) {
    append_members(text(field.value()), &members);
  });
  return members;
}

bool is_continue(std::string_view expectation) {
  return equal_ignoring_case(expectation, "100-continue");
}

// `bytes` begin with the line at which the parser has stopped.
RequestReader::Refusal refusal_of(const boost::system::error_code& error,
                                  std::string_view bytes,
                                  const RequestLimits& limits) {
  if (error == beast_http::error::body_limit) {
    return {413, "the body is larger than " + std::to_string(limits.body_bytes_max) + " bytes"};
  }
  return {400, fault_of_field(bytes)};
}

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
    line = {};
    fields = {};
    head.clear();
    request = {};
    state = State::kHeader;
    started = false;
    expects_continue = false;
  }

  void refuse(int status, std::string message) {
    refusal = {status, std::move(message)};
    state = State::kRefused;
  }

  // The parser is given a header that is complete: what it makes of a part depends on where that
  // ends.
  [[nodiscard]] std::size_t feed_header(std::string_view bytes) {
    const std::size_t before = head.size();
    head.append(bytes.substr(0, limits.header_bytes_max + 1 - before));
    line.take(head, limits);
    if (line.complete()) {
      fields.take(std::string_view(head).substr(line.size()), line.size(), limits);
    }
    const auto& why = line.refusal() ? line.refusal() : fields.refusal();
    if (why) {
      refuse(why->status, why->message);
    }
    if (why || !fields.complete()) {
      return head.size() - before;
    }
    head.resize(line.size() + fields.size());
    parse_header();
    return head.size() - before;
  }

  void parse_header() {
    const auto as_spoken = line.as_http_1_1(head);
    const std::string whole = as_spoken ? *as_spoken + head.substr(line.size()) : std::string();
    const std::string_view bytes = as_spoken ? whole : head;
    SystemError error;
    const std::size_t used = parser->put(asio::const_buffer(bytes.data(), bytes.size()), error);
    if (!parser->is_header_done()) {
      const Refusal why = refusal_of(error, bytes.substr(used), limits);
      refuse(why.status, why.message);
    } else {
      finish_header();
    }
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
    if (state != State::kRefused) {
      check_expectations();
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
    const std::string host = text(message[beast_http::field::host]);
    if (hosts == 1 && !is_authority(host)) {
      return refuse(400,
                    "the Host field must be a name or an address, with or without a port; came \"" +
                        shown_text(host) + "\"");
    }
    const std::string length = text(message[beast_http::field::content_length]);
    if (message.count(beast_http::field::content_length) > 1 ||
        !std::all_of(length.begin(), length.end(), is_digit)) {
      return refuse(400,
                    "Content-Length must be a decimal number, and come once; came \"" +
                        shown_text(length) + "\"");
    }
    if (message.count(beast_http::field::transfer_encoding) > 0) {
      check_codings();
    }
  }

  // Where the last coding is another one, nobody knows where the body ends (RFC 9112 §6.3).
  void check_codings() {
    const auto& message = parser->get();
    if (message.version() < 11) {
      return refuse(400, "Transfer-Encoding is not part of HTTP/1.0");
    }
    const auto codings = members_of(message, beast_http::field::transfer_encoding);
    const auto chunked = std::count_if(codings.begin(), codings.end(), [](const auto& coding) {
      return equal_ignoring_case(coding, "chunked");
    });
    const std::string value = text(message[beast_http::field::transfer_encoding]);
    if (chunked != 1 || !equal_ignoring_case(codings.back(), "chunked")) {
      return refuse(400,
                    "the last coding of Transfer-Encoding, and no other, must be chunked; came \"" +
                        shown_text(codings.empty() ? value : codings.back()) + "\" as the last");
    }
    if (codings.size() > 1) {
      return refuse(501,
                    "transfer-encoding: only chunked is supported; came \"" +
                        shown_text(codings.front()) + "\" before it");
    }
    if (!equal_ignoring_case(value, "chunked")) {
      return refuse(
          400,
          "Transfer-Encoding must be chunked, and come once; came \"" + shown_text(value) + "\"");
    }
  }

  // A client that waits for what it expects would hear nothing. One of HTTP/1.0 expects nothing.
  void check_expectations() {
    if (parser->get().version() < 11) {
      return;
    }
    const auto expectations = members_of(parser->get(), beast_http::field::expect);
    const auto other = std::find_if_not(expectations.begin(), expectations.end(), is_continue);
    if (other != expectations.end()) {
      return refuse(417,
                    "Expect: only 100-continue is supported; came \"" + shown_text(*other) + "\"");
    }
    expects_continue = !expectations.empty();
  }

  void make_head() {
    const auto& message = parser->get();
    request.method = text(message.method_string());
    request.target = text(message.target());
    std::string_view target = request.target;
    const auto authority = authority_of_target(target);
    if (!target.starts_with('/') && !authority && target != "*") {
      return refuse(400, "the request target must be a path; came \"" + shown_text(target) + "\"");
    }
    if (authority) {
      // It stands above the Host field, so it must be what that has to be.
      if (!is_authority(*authority)) {
        return refuse(400,
                      "the request target must name a host, with or without a port; came \"" +
                          shown_text(*authority) + "\"");
      }
      target.remove_prefix(kAbsoluteScheme.size() + authority->size());
    }
    const std::size_t question = target.find('?');
    auto path = percent_decoded(target.substr(0, question));
    if (!path) {
      return refuse(400, "the request target has a malformed %-escape, or one of a NUL");
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
  RequestLine line;
  FieldLines fields;
  std::string head;  // as it came
  Request request;   // its body comes last
  State state = State::kHeader;
  Refusal refusal;
  bool started = false;
  bool expects_continue = false;  // and has not been told
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
  return impl_->state == State::kBody && std::exchange(impl_->expects_continue, false);
}

Request RequestReader::head() const {
  Request head;
  if (!impl_->line.complete()) {
    return head;
  }
  std::string_view lines = impl_->head;
  head.method = lines.substr(0, lines.find(' '));
  lines.remove_prefix(head.method.size() + 1);
  head.target = lines.substr(0, lines.find(' '));
  lines = std::string_view(impl_->head).substr(impl_->line.size(), impl_->fields.complete_lines());
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\r'));
    const std::string_view name = line.substr(0, line.find(':'));
    if (!name.empty()) {
      head.headers.add(std::string(name),
                       std::string(without_blanks(line.substr(name.size() + 1))));
    }
    lines.remove_prefix(line.size() + 2);
  }
  return head;
}

bool RequestReader::is_head() const {
  return impl_->line.is_head();
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
