// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "phalanx/base/utf8.h"

#include "load_steps.h"
#include "nfc.h"
#include "tokenizer_data.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTemplateJsonFile = "chat_template.json";
constexpr const char* kToolTemplateFile = "additional_chat_templates/tool_use.jinja";

Status check_size(std::size_t bytes, std::size_t bytes_max) {
  if (bytes > bytes_max) {
    return invalid_argument("expected at most " + std::to_string(bytes_max) + " bytes, found " +
                            std::to_string(bytes));
  }
  return ok();
}

Status check_template(const std::string& source) {
  PHALANX_RETURN_IF_ERROR(check_size(source.size(), kMaxTemplateBytes));
  return is_valid_utf8(source) ? ok() : Status(invalid_argument("expected UTF-8"));
}

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

void add_to_finder(AddedToken token, Tokenizer::Data& data) {
  if (token.normalized) {
    token.content = data.normalizer.apply(token.content);
  }
  // Without a normaliser both kinds are looked for in the same text, yet still one after the other.
  (token.normalized ? data.added_normalized : data.added_as_given).add(std::move(token));
}

Status add_config_tokens(const std::vector<AddedToken>& from_config,
                         Tokenizer::Data& data,
                         std::vector<AddedToken>& added) {
  std::set<std::string_view> known;
  for (const AddedToken& token : added) {
    known.insert(token.content);
  }
  std::vector<AddedToken> missing;
  for (const AddedToken& token : from_config) {
    if (!known.contains(token.content)) {
      PHALANX_RETURN_IF_ERROR(data.vocabulary.insert_added(token.id, token.content, token.special));
      missing.push_back(token);
    }
  }
  added.insert(added.end(), missing.begin(), missing.end());
  return ok();
}

Status apply_config(std::string_view json, Tokenizer::Data& data, std::vector<AddedToken>& added) {
  if (json.empty()) {
    return ok();
  }
  PHALANX_RETURN_IF_ERROR(check_size(json.size(), kMaxConfigBytes));
  PHALANX_TRY(ConfigFile config, read_tokenizer_config(json));
  if (Status status = add_config_tokens(config.added, data, added); !status) {
    return std::move(status).error().with("added_tokens_decoder");
  }
  for (NamedToken& token : config.named_tokens) {
    token.id = data.vocabulary.find(token.text);
  }
  data.named_tokens = std::move(config.named_tokens);
  data.templates = std::move(config.templates);
  return ok();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> finish_tokenizer(std::unique_ptr<Tokenizer::Data> data,
                                                    std::vector<AddedToken> added) {
  for (const std::string* source : {&data->templates.chat, &data->templates.tool_use}) {
    if (Status status = check_template(*source); !status) {
      return std::move(status).error().with("chat template");
    }
  }
  for (AddedToken& token : added) {
    add_to_finder(std::move(token), *data);
  }
  // The tables of normalisation are made at their first use, which a request should not pay for.
  static_cast<void>(is_plainly_nfc(kReplacementCharacter));
  return std::make_unique<Tokenizer>(std::move(data));
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer_from_text(std::string_view tokenizer_json,
                                                            std::string_view config_json,
                                                            const TemplateSources& templates) {
  auto data = std::make_unique<Tokenizer::Data>();
  std::vector<AddedToken> added;
  Status status = check_size(tokenizer_json.size(), kMaxTokenizerBytes);
  if (status) {
    status = read_tokenizer_json(tokenizer_json, *data, added);
  }
  if (!status) {
    return std::move(status).error().with(kTokenizerFile);
  }
  if (status = apply_config(config_json, *data, added); !status) {
    return std::move(status).error().with(kConfigFile);
  }
  if (!templates.chat.empty()) {
    data->templates = templates;
  }
  return finish_tokenizer(std::move(data), std::move(added));
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder) {
  PHALANX_TRY(const auto tokenizer_json, read_named(folder, kTokenizerFile, kMaxTokenizerBytes));
  PHALANX_TRY(const auto config_json, read_named(folder, kConfigFile, kMaxConfigBytes));
  PHALANX_TRY(const TemplateSources templates, read_template_files(folder));
  if (!tokenizer_json.has_value()) {
    return not_found((folder / kTokenizerFile).string() + ": no such file");
  }
  auto tokenizer = load_tokenizer_from_text(*tokenizer_json, config_json.value_or(""), templates);
  if (!tokenizer) {
    return std::move(tokenizer).error().with(folder.string());
  }
  return tokenizer;
}

}  // namespace phalanx::tokenizer
