// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/base/clock.h"

namespace phalanx::serving {

// One request, told once at its end.
struct RequestRecord {
  std::string id;     // X-Request-Id
  std::string route;  // "/v1/chat/completions"
  std::string
      outcome;  // "stop", "length", "error", "client_gone"; of several choices that of the last
  std::string error;
  bool stream = false;
  std::uint32_t choices = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of them, found in a prefix cache
  std::uint64_t completion_tokens = 0;
  Duration tokenize_time{};        // parsing, template and tokenization
  Duration time_to_first_token{};  // zero if there was none
  Duration duration{};             // from the last byte of the request to the end of the answer
};

// Hears what happens to requests, for logs and metrics. Called on the loop thread.
class ServingObserver {
 public:
  ServingObserver() = default;
  ServingObserver(const ServingObserver&) = delete;
  ServingObserver& operator=(const ServingObserver&) = delete;
  virtual ~ServingObserver() = default;

  // Tokenized and handed to the dispatcher.
  virtual void on_request_start(const RequestRecord& record,
                                std::uint32_t max_tokens,
                                const std::string& sampling) = 0;
  virtual void on_first_token(Duration since_request) = 0;
  virtual void on_next_token(Duration since_last_token) = 0;  // of the same choice
  virtual void on_request_end(const RequestRecord& record) = 0;
  virtual void on_request_refused(const std::string& route, int status) = 0;
};

}  // namespace phalanx::serving
