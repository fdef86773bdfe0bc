// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "phalanx/base/result.h"
#include "phalanx/os/memfd.h"
#include "phalanx/serving/served_model.h"
#include "phalanx/settings/leader_plan.h"
#include "phalanx/settings/options.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::app {

// The model as the prompts of the command line see it, which have no front. What `served` names
// lives here.
struct OfflineModel {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<tokenizer::ChatTemplate> chat_template;  // null if the model has none
  serving::ServedModel served;
};

// Makes it of what the planner has left in `source`: the one place where the leader looks into it.
// Errors: those of the tokenizer and the template.
[[nodiscard]] Result<std::unique_ptr<OfflineModel>> offline_model_of(
    const settings::Options& options, const settings::LeaderPlan& plan, const os::Memfd& source);

}  // namespace phalanx::app
