// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/admission.h"

#include <algorithm>
#include <string>
#include <utility>

namespace phalanx::dispatch {

namespace {

constexpr std::uint64_t kTokenBytes = 4;  // of a body, about

}  // namespace

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
    owner_->remove(tokens_);
  }
}

Status Admission::Ticket::correct(std::uint64_t tokens) {
  if (owner_ == nullptr) {
    return ok();
  }
  tokens = owner_->booked_for(tokens);
  owner_->remove(tokens_);
  Status room = owner_->check_large(tokens);
  if (room) {
    tokens_ = tokens;
  }
  owner_->add(tokens_);
  return room;
}

std::uint64_t Admission::booked_for(std::uint64_t tokens) const {
  return std::min(tokens, std::max<std::uint64_t>(1, for_large() / 2));
}

void Admission::add(std::uint64_t tokens) {
  tokens_ += tokens;
  large_tokens_ += is_large(tokens) ? tokens : 0;
}

void Admission::remove(std::uint64_t tokens) {
  tokens_ -= tokens;
  large_tokens_ -= is_large(tokens) ? tokens : 0;
}

// May a body of so many tokens be added to the large ones, if it is one?
Status Admission::check_large(std::uint64_t tokens) const {
  if (is_large(tokens) && large_tokens_ > 0 && large_tokens_ + tokens > for_large()) {
    return resource_exhausted("the server already holds large requests of " +
                              std::to_string(large_tokens_) + " tokens (limit " +
                              std::to_string(for_large()) + "); try again later");
  }
  return ok();
}

Result<Admission::Ticket> Admission::admit(std::uint64_t body_bytes) {
  if (requests_ >= limits_.requests) {
    return resource_exhausted("the server already holds " + std::to_string(requests_) +
                              " requests (limit " + std::to_string(limits_.requests) +
                              "); try again later");
  }
  const std::uint64_t tokens = booked_for((body_bytes + kTokenBytes - 1) / kTokenBytes);
  if (requests_ > 0 && tokens_ + tokens > limits_.tokens) {
    return resource_exhausted("the server already holds " + std::to_string(tokens_) +
                              " tokens (limit " + std::to_string(limits_.tokens) +
                              "); try again later");
  }
  PHALANX_RETURN_IF_ERROR(check_large(tokens));
  ++requests_;
  add(tokens);
  return Ticket(this, tokens);
}

}  // namespace phalanx::dispatch
