// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/admission.h"

#include <algorithm>
#include <string>
#include <utility>

namespace phalanx::dispatch {

Admission::Ticket::Ticket(Ticket&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), tokens_(std::exchange(other.tokens_, 0)) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(tokens_, other.tokens_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (owner_ != nullptr) {
    --owner_->requests_;
    owner_->tokens_ -= tokens_;
  }
}

void Admission::Ticket::correct(std::uint64_t tokens) {
  if (owner_ != nullptr) {
    tokens = std::min(tokens, owner_->limits_.tokens / 2);
    owner_->tokens_ += tokens - tokens_;
    tokens_ = tokens;
  }
}

Result<Admission::Ticket> Admission::admit(std::uint64_t body_bytes) {
  if (requests_ >= limits_.requests) {
    return resource_exhausted("the server already holds " + std::to_string(requests_) +
                              " requests (limit " + std::to_string(limits_.requests) +
                              "); try again later");
  }
  if (requests_ > 0 && tokens_ + body_bytes > limits_.tokens) {
    return resource_exhausted("the server already holds " + std::to_string(tokens_) +
                              " tokens (limit " + std::to_string(limits_.tokens) +
                              "); try again later");
  }
  ++requests_;
  tokens_ += body_bytes;
  return Ticket(this, body_bytes);
}

}  // namespace phalanx::dispatch
