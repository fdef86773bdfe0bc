// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/tokenizer_source.h"

#include <array>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "phalanx/gguf/file.h"

#include "load_steps.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTemplateJsonFile = "chat_template.json";
constexpr const char* kToolTemplateFile = "additional_chat_templates/tool_use.jinja";

// The contents of a file, or nothing if there is no such file.
Result<std::optional<std::string>> read_file(const std::filesystem::path& path,
                                             std::size_t bytes_max) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return std::optional<std::string>();
  }
  std::ifstream file(path, std::ios::binary);
  std::string contents;
  std::array<char, 65536> buffer{};
  // Read to the end and not to a size asked for before: the file may change in between.
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    contents.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
    PHALANX_RETURN_IF_ERROR(check_size(contents.size(), bytes_max));
  }
  if (!file.eof()) {
    return unavailable("cannot read " + path.string());
  }
  return std::optional(std::move(contents));
}

// The same, with the name of the file in the error.
Result<std::optional<std::string>> read_named(const std::filesystem::path& folder,
                                              const char* name,
                                              std::size_t bytes_max) {
  auto contents = read_file(folder / name, bytes_max);
  return contents ? std::move(contents)
                  : Result<std::optional<std::string>>(std::move(contents).error().with(name));
}

// The templates that stand in files of their own.
Result<TemplateSources> read_template_files(const std::filesystem::path& folder) {
  TemplateSources templates;
  PHALANX_TRY(const auto chat, read_named(folder, kTemplateFile, kMaxTemplateBytes));
  if (chat.has_value()) {
    templates.chat = *chat;
    PHALANX_TRY(const auto tool_use, read_named(folder, kToolTemplateFile, kMaxTemplateBytes));
    templates.tool_use = tool_use.value_or("");
    return templates;
  }
  PHALANX_TRY(const auto json, read_named(folder, kTemplateJsonFile, kMaxConfigBytes));
  if (json.has_value()) {
    auto read = read_template_json(*json);
    return read ? std::move(read)
                : Result<TemplateSources>(std::move(read).error().with(kTemplateJsonFile));
  }
  return templates;
}

Result<std::unique_ptr<Tokenizer>> load_content(const TokenizerTexts& texts) {
  return load_tokenizer_from_text(texts.tokenizer_json, texts.config_json, texts.templates);
}

Result<std::unique_ptr<Tokenizer>> load_content(const GgufHead& head) {
  PHALANX_TRY(const gguf::Metadata metadata,
              gguf::parse_metadata(std::as_bytes(std::span(head.bytes))));
  return load_tokenizer(metadata, head.templates);
}

}  // namespace

Result<TokenizerSource> read_tokenizer_source(const std::filesystem::path& folder) {
  PHALANX_TRY(auto tokenizer_json, read_named(folder, kTokenizerFile, kMaxTokenizerBytes));
  PHALANX_TRY(auto config_json, read_named(folder, kConfigFile, kMaxConfigBytes));
  PHALANX_TRY(TemplateSources templates, read_template_files(folder));
  if (!tokenizer_json.has_value()) {
    return not_found((folder / kTokenizerFile).string() + ": no such file");
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
