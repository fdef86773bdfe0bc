// SPDX-License-Identifier: Apache-2.0
#include "offline.h"

#include <string_view>

#include "phalanx/tokenizer/tokenizer_source.h"

namespace phalanx::app {

Result<std::unique_ptr<OfflineModel>> offline_model_of(const settings::Options& options,
                                                       const settings::LeaderPlan& plan,
                                                       const os::Memfd& source) {
  auto model = std::make_unique<OfflineModel>();
  {
    PHALANX_TRY(const os::Mapping mapping, source.map(os::Access::kReadOnly));
    const std::string_view bytes(reinterpret_cast<const char*>(mapping.data()), mapping.size());
    PHALANX_TRY(const tokenizer::TokenizerSource texts, tokenizer::tokenizer_source_from(bytes));
    PHALANX_TRY(model->tokenizer, tokenizer::load_tokenizer(texts));
  }
  if (const auto& text = model->tokenizer->chat_template(); !text.empty()) {
    PHALANX_TRY(tokenizer::ChatTemplate compiled,
                tokenizer::compile_chat_template(*model->tokenizer, text));
    model->chat_template = std::make_unique<tokenizer::ChatTemplate>(std::move(compiled));
  }
  serving::ServedModel& served = model->served;
  served.name = plan.model_name;
  served.root = options.model;
  served.created = plan.created;
  served.max_model_len = plan.made.limits.max_model_len;
  served.vocab = plan.made.vocab;
  served.tokenizer = model->tokenizer.get();
  served.chat_template = model->chat_template.get();
  served.default_sampling = plan.made.default_sampling;
  served.end_tokens = plan.made.end_tokens;
  return model;
}

}  // namespace phalanx::app
