// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "phalanx/base/check.h"
#include "phalanx/http/request_reader.h"
#include "phalanx/http/response_reader.h"
#include "phalanx/http/sse_parser.h"

namespace {

using phalanx::http::RequestReader;

struct Outcome {
  std::string requests;  // all that were complete, and at last the refusal
  bool refused = false;
};

// As a connection does: what was not used is offered again.
Outcome read_requests(std::string_view bytes, std::size_t step) {
  RequestReader reader({.header_bytes_max = 4096, .body_bytes_max = 4096});
  Outcome outcome;
  std::string pending;
  while (!bytes.empty() && !outcome.refused) {
    pending.append(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    bool goes_on = true;
    while (goes_on && !pending.empty()) {
      pending.erase(0, reader.feed(pending));
      goes_on = reader.state() == RequestReader::State::kComplete;
      if (goes_on) {
        const phalanx::http::Request request = reader.take();
        PHALANX_CHECK(request.body.size() <= 4096, "a body beyond its limit");
        outcome.requests += request.method + " " + request.path + " " + request.query + "\n" +
                            request.body.text() + "\n";
      }
    }
    PHALANX_CHECK(pending.size() <= 4096 + step || reader.state() == RequestReader::State::kRefused,
                  "a header beyond its limit is held");
    outcome.refused = reader.state() == RequestReader::State::kRefused;
    if (outcome.refused) {
      outcome.requests += std::to_string(reader.refusal().status) + reader.refusal().message;
    }
  }
  return outcome;
}

void read_response(std::string_view bytes, std::size_t step) {
  phalanx::http::ResponseReader reader;
  phalanx::http::SseParser events([](const phalanx::http::SseEvent&) {}, 4096);
  std::string pending;
  while (!bytes.empty() && !reader.complete()) {
    pending.append(bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    const auto used = reader.feed(pending);
    if (!used) {
      return;
    }
    pending.erase(0, *used);
    if (reader.has_head() && !events.feed(reader.take_body())) {
      return;
    }
  }
  (void)reader.feed_end();
}

}  // namespace

// The first byte says how the rest is cut. However it is cut, the same requests and the same
// refusal must come out.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::size_t step = data[0] == 0 ? 1 : data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const Outcome whole = read_requests(bytes, bytes.size());
  const Outcome cut = read_requests(bytes, step);
  PHALANX_CHECK(whole.requests == cut.requests, "the cut of the stream changed the requests");
  read_response(bytes, step);
  return 0;
}
