// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/tokenizer_source.h"

#include <optional>
#include <span>
#include <utility>

#include "phalanx/base/git_lfs.h"
#include "phalanx/gguf/file.h"
#include "phalanx/os/read_file.h"

#include "load_steps.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTemplateJsonFile = "chat_template.json";
constexpr const char* kToolTemplateFile = "additional_chat_templates/tool_use.jinja";

// The contents of a file, or nothing if there is no such file. One that is there and says nothing
// has lost what it had: nobody means by it that it is not there.
Result<std::optional<std::string>> read_optional(const std::filesystem::path& folder,
                                                 const char* name,
                                                 std::size_t bytes_max) {
  const std::string path = (folder / name).string();
  if (!os::has_entry(path)) {
    return std::optional<std::string>();
  }
  PHALANX_TRY(std::string contents, os::read_file(path, bytes_max));
  if (contents.empty()) {
    return data_loss(path + ": the file is empty");
  }
  if (is_git_lfs_pointer(contents)) {
    return data_loss(path + std::string(kGitLfsPointerFound));
  }
  return std::optional(std::move(contents));
}

// The templates that stand in files of their own.
Result<TemplateSources> read_template_files(const std::filesystem::path& folder) {
  TemplateSources templates;
  PHALANX_TRY(const auto chat, read_optional(folder, kTemplateFile, kMaxTemplateBytes));
  if (chat.has_value()) {
    templates.chat = *chat;
    PHALANX_TRY(const auto tool_use, read_optional(folder, kToolTemplateFile, kMaxTemplateBytes));
    templates.tool_use = tool_use.value_or("");
    return templates;
  }
  PHALANX_TRY(const auto json, read_optional(folder, kTemplateJsonFile, kMaxConfigBytes));
  if (json.has_value()) {
    auto read = read_template_json(*json);
    return read ? std::move(read)
                : Result<TemplateSources>(std::move(read).error().with(kTemplateJsonFile));
  }
  return templates;
}

Result<std::unique_ptr<Tokenizer>> load_content(const TokenizerTexts& texts) {
  return load_tokenizer_from_text(
      texts.tokenizer_json, texts.config_json, texts.templates, texts.model_tokens);
}

Result<std::unique_ptr<Tokenizer>> load_content(const GgufHead& head) {
  PHALANX_TRY(const gguf::Metadata metadata,
              gguf::parse_metadata(std::as_bytes(std::span(head.bytes))));
  return load_tokenizer(metadata, head.templates);
}

}  // namespace

Result<TokenizerSource> read_tokenizer_source(const std::filesystem::path& folder) {
  PHALANX_TRY(auto tokenizer_json, read_optional(folder, kTokenizerFile, kMaxTokenizerBytes));
  PHALANX_TRY(auto config_json, read_optional(folder, kConfigFile, kMaxConfigBytes));
  PHALANX_TRY(TemplateSources templates, read_template_files(folder));
  if (!tokenizer_json.has_value()) {
    const bool others = os::has_entry((folder / "tokenizer.model").string()) ||
                        os::has_entry((folder / "vocab.json").string());
    return not_found((folder / kTokenizerFile).string() + ": no such file" +
                     (others ? ", only an older kind: save_pretrained() of a fast tokenizer of "
                               "transformers writes it"
                             : ""));
  }
  return TokenizerSource{
      .origin = folder.string(),
      .content = TokenizerTexts{.tokenizer_json = *std::move(tokenizer_json),
                                .config_json = std::move(config_json).value_or(""),
                                .templates = std::move(templates)}};
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const TokenizerSource& source) {
  auto tokenizer =
      std::visit([](const auto& content) { return load_content(content); }, source.content);
  if (!tokenizer) {
    return std::move(tokenizer).error().with(source.origin);
  }
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder) {
  PHALANX_TRY(const TokenizerSource source, read_tokenizer_source(folder));
  return load_tokenizer(source);
}

}  // namespace phalanx::tokenizer
