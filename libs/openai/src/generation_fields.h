// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/openai/requests.h"

#include "fields.h"

namespace phalanx::openai {

enum class Endpoint { kChat, kCompletions };

// Reads the members that chat and completions share, one at a time, and then what they mean
// together.
class GenerationReader {
 public:
  GenerationReader(Endpoint endpoint, const RequestBounds& bounds, GenerationFields* out)
      : endpoint_(endpoint), bounds_(bounds), out_(out) {}

  // Reads `field`, or refuses it. Fields that nobody knows are noted as ignored.
  [[nodiscard]] Refusal read(const Field& field);

  // After the last field: what depends on several of them.
  [[nodiscard]] Refusal finish();

 private:
  [[nodiscard]] Refusal read_stop(const Field& field);
  [[nodiscard]] Refusal read_logit_bias(const Field& field);
  [[nodiscard]] Refusal read_stream_options(const Field& field);
  [[nodiscard]] Refusal read_logprobs(const Field& field);
  [[nodiscard]] Refusal read_max_tokens(const Field& field);
  [[nodiscard]] bool read_number(const Field& field, Refusal* refusal);
  [[nodiscard]] bool read_switch(const Field& field, Refusal* refusal);
  [[nodiscard]] bool read_list(const Field& field, Refusal* refusal);

  Endpoint endpoint_;
  const RequestBounds& bounds_;
  GenerationFields* out_;
  bool logprobs_wanted_ = false;
  bool has_stream_options_ = false;
  std::optional<std::int64_t> top_logprobs_;
  bool has_foreign_count_ = false;  // top_logprobs, which completions call logprobs, and not 0
};

// Fields that are known and have no effect here: harmless to accept ("user"), or refused unless
// they ask for what happens anyway. Returns whether the field is one of them.
[[nodiscard]] bool read_unsupported(const Field& field, Endpoint endpoint, Refusal* refusal);

}  // namespace phalanx::openai
