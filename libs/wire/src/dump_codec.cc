// SPDX-License-Identifier: Apache-2.0
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

#include "archive.h"
#include "checker.h"
#include "schema_sampling.h"

namespace phalanx::wire {

template <typename Archive, Like<PoisonedRequest> Message>
void fields(Archive& archive, Message& message) {
  archive.text("error", message.error, kMaxErrorBytes);
  archive.text("label", message.label, kMaxNameBytes);
  archive.id("request", message.request);
  archive.number("choice", message.choice);
  archive.structure("sampling", message.sampling);
  archive.structure("stop", message.stop);
  archive.words("prompt_ids", message.prompt_ids, step::kMaxPromptTokens);
  archive.words("produced_ids", message.produced_ids, step::kMaxPromptTokens);
}

std::string encode(const PoisonedRequest& request) {
  return Writer::encode(request);
}

Status check(const PoisonedRequest& request) {
  return Checker::check("poisoned_request", request);
}

Result<PoisonedRequest> decode_poisoned_request(std::string_view bytes) {
  return Reader::decode<PoisonedRequest>("poisoned_request", bytes);
}

}  // namespace phalanx::wire
