// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/inspect.h"

#include <utility>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/model_folder.h"
#include "phalanx/checkpoint/model_path.h"
#include "phalanx/tokenizer/chat_template.h"

#include "inspect_weights.h"

namespace phalanx::checkpoint {
namespace {

void add_obstacle(Inspection& inspection, const char* part, Error error) {
  inspection.obstacles.push_back({part, std::move(error)});
}

void inspect_template(const tokenizer::Tokenizer& tokenizer,
                      const char* part,
                      const std::string& source,
                      Inspection& inspection) {
  if (source.empty()) {
    return;
  }
  if (const auto compiled = tokenizer::compile_chat_template(tokenizer, source); !compiled) {
    add_obstacle(inspection, part, compiled.error());
  }
}

void inspect_tokenizer(ModelFolder& folder,
                       const GenerationDefaults& defaults,
                       Inspection& inspection) {
  const auto tokenizer = load_tokenizer(folder, inspection.config ? inspection.config->vocab : 0);
  if (!tokenizer) {
    add_obstacle(inspection, "tokenizer", tokenizer.error());
    return;
  }
  if (inspection.tokenizer.empty()) {
    inspection.tokenizer =
        "tokenizer.json, " + std::to_string((*tokenizer)->vocab_size()) + " tokens";
  }
  if (!(*tokenizer)->left_out().empty()) {
    inspection.warnings.push_back(left_out_text(**tokenizer));
  }
  if (inspection.config) {
    if (const Status fits = check_tokens(**tokenizer, inspection.config->vocab); !fits) {
      add_obstacle(inspection, "tokenizer", fits.error());
    }
  }
  if (const auto ends = end_tokens(defaults, **tokenizer); !ends) {
    add_obstacle(inspection, "tokenizer", ends.error());
  }
  inspection.has_chat_template = !(*tokenizer)->chat_template().empty();
  inspect_template(**tokenizer, "chat template", (*tokenizer)->chat_template(), inspection);
  inspect_template(**tokenizer, "tool_use template", (*tokenizer)->tool_use_template(), inspection);
}

}  // namespace

Result<Inspection> inspect(const std::string& path, const std::string& quantization) {
  PHALANX_RETURN_IF_ERROR(check_model_path(path));
  ModelFolder folder(path);
  Inspection inspection;
  inspection.path = path;
  PHALANX_RETURN_IF_ERROR(folder.gguf_name().empty() ? describe_hugging_face(folder, inspection)
                                                     : describe_gguf(folder, inspection));
  GenerationDefaults defaults;
  if (const auto checkpoint = Checkpoint::open(folder); checkpoint) {
    defaults = checkpoint->generation();
    inspection.config = checkpoint->config();
    inspection.unused = checkpoint->unused();
    if (inspection.unused.count > 0) {
      inspection.warnings.push_back(inspection.unused.text());
    }
    inspection.config->formats = checkpoint->formats_for(quantization);
    if (std::string note = checkpoint->codes_left(quantization); !note.empty()) {
      inspection.warnings.push_back(std::move(note));
    }
  } else {
    add_obstacle(inspection, "model", checkpoint.error());
  }
  inspect_tokenizer(folder, defaults, inspection);
  return inspection;
}

}  // namespace phalanx::checkpoint
