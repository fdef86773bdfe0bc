// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <string>

#include "phalanx/settings/options.h"
#include "phalanx/wire/limits.h"

namespace phalanx::settings {

Result<keeper::Prompts> prompts_of(const Options& options) {
  keeper::Prompts prompts;
  std::size_t bytes = 0;
  for (const std::string& prompt : options.prompts) {
    bytes += prompt.size();
  }
  if (bytes > wire::kMaxPromptsBytes) {
    return invalid_argument("--prompt: expected at most " + std::to_string(wire::kMaxPromptsBytes) +
                            " bytes in all prompts together, found " + std::to_string(bytes));
  }
  prompts.texts = options.prompts;
  prompts.how.apply_chat_template = options.apply_chat_template;
  prompts.how.max_tokens = static_cast<std::uint32_t>(options.max_tokens);
  if (options.temperature >= 0.0) {
    prompts.how.temperature = static_cast<float>(options.temperature);
  }
  prompts.how.is_seeded = options.seed >= 0;
  prompts.how.seed = std::max<std::int64_t>(options.seed, 0);
  return prompts;
}

}  // namespace phalanx::settings
