// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "components.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::array<const char*, 7> kRoles{
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// A role's token: its text, or an object with the text as "content".
Result<std::string> token_text_of(const Json& value) {
  if (const std::string* text = value.as_string()) {
    return *text;
  }
  if (value.as_object() != nullptr) {
    return string_field(value, "content", "");
  }
  return expected("a string or an object with content", value);
}

// Named or additional, it is special whether it says so or not.
Status add_special(const Json& value, std::vector<AddedToken>& special) {
  AddedToken token;
  if (value.as_object() != nullptr) {
    PHALANX_TRY(token, read_added_token(value, 0));
  } else {
    PHALANX_TRY(token.content, token_text_of(value));
    token.normalized = false;
  }
  token.special = true;
  if (!token.content.empty()) {
    special.push_back(std::move(token));
  }
  return ok();
}

// A list of tokens, or an object whose members are some.
Status add_all_special(const Json& tokens, std::vector<AddedToken>& special) {
  const Json::Array* const list = tokens.as_array();
  const Json::Object* const named = tokens.as_object();
  const std::size_t count = list != nullptr ? list->size() : named != nullptr ? named->size() : 0;
  if ((list == nullptr && named == nullptr) || count > kMaxAddedTokens) {
    return expected("a list of at most " + std::to_string(kMaxAddedTokens) + " tokens", tokens);
  }
  for (std::size_t i = 0; i < count; ++i) {
    PHALANX_RETURN_IF_ERROR(add_special(list != nullptr ? (*list)[i] : (*named)[i].value, special));
  }
  return ok();
}

Status read_more_special(const Json& config, std::vector<AddedToken>& special) {
  for (const char* field : {"additional_special_tokens", "extra_special_tokens"}) {
    const Json* const tokens = config.find(field);
    if (tokens == nullptr || tokens->is_null()) {
      continue;
    }
    if (Status added = add_all_special(*tokens, special); !added) {
      return std::move(added).error().with(field);
    }
  }
  return ok();
}

// One template, or several with names, as a list or an object: "default" is the one for
// conversations, "tool_use" the one for those with tools.
Status read_templates(const Json& value, TemplateSources& out) {
  if (const std::string* text = value.as_string()) {
    out.chat = *text;
    return ok();
  }
  const Json::Array* const list = value.as_array();
  const Json::Object* const object = value.as_object();
  if (list == nullptr && object == nullptr) {
    return expected("a string or a list of named templates", value);
  }
  const auto take =
      [&](std::string_view name, const Json& holder, std::string_view field) -> Status {
    PHALANX_TRY(std::string source, string_field(holder, field, ""));
    if (name == "default") {
      out.chat = std::move(source);
    } else if (name == "tool_use") {
      out.tool_use = std::move(source);
    }
    return ok();
  };
  for (std::size_t i = 0; object != nullptr && i < object->size(); ++i) {
    const std::string& name = (*object)[i].key;
    PHALANX_RETURN_IF_ERROR(take(name, value, name));
  }
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Json& entry = (*list)[i];
    if (entry.as_object() == nullptr) {
      return expected("an object with name and template", entry);
    }
    PHALANX_TRY(const std::string name, string_field(entry, "name", ""));
    PHALANX_RETURN_IF_ERROR(take(name, entry, "template"));
  }
  if (out.chat.empty()) {
    return invalid_argument("expected a template named \"default\", found none");
  }
  return ok();
}

Status read_chat_template(const Json& config, TemplateSources& out) {
  const Json* const chat = config.find("chat_template");
  if (chat == nullptr || chat->is_null()) {
    return ok();
  }
  Status status = read_templates(*chat, out);
  return status ? ok() : Status(std::move(status).error().with("chat_template"));
}

Status read_added(const Json& decoder, std::vector<AddedToken>& added) {
  const Json::Object* const tokens = decoder.as_object();
  if (tokens == nullptr || tokens->size() > kMaxAddedTokens) {
    return expected("an object of at most " + std::to_string(kMaxAddedTokens) + " tokens", decoder);
  }
  for (const auto& [key, value] : *tokens) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 ||
        id > kMaxTokenId) {
      return invalid_argument("expected token ids from 0 to " + std::to_string(kMaxTokenId) +
                              " as names, found \"" + key + "\"");
    }
    PHALANX_TRY(AddedToken token, read_added_token(value, id));
    added.push_back(std::move(token));
  }
  return ok();
}

Status read_around(const Json& config, ConfigFile& file) {
  const Json* const name = config.find("tokenizer_class");
  const std::string* const text = name == nullptr ? nullptr : name->as_string();
  if (text == nullptr || (*text != "LlamaTokenizer" && *text != "LlamaTokenizerFast")) {
    return ok();
  }
  ConfigFile::Around around;
  PHALANX_TRY(around.bos, bool_field(config, "add_bos_token", around.bos));
  PHALANX_TRY(around.eos, bool_field(config, "add_eos_token", around.eos));
  file.around = around;
  return ok();
}

}  // namespace

Result<ConfigFile> read_tokenizer_config(std::string_view json) {
  PHALANX_TRY(const Json config, parse_json(json, "file"));
  if (config.as_object() == nullptr) {
    return expected("an object", config);
  }
  ConfigFile file;
  for (const char* role : kRoles) {
    const Json* const value = config.find(role);
    if (value == nullptr || value->is_null()) {
      continue;
    }
    Result<std::string> text = token_text_of(*value);
    if (!text) {
      return std::move(text).error().with(role);
    }
    file.named_tokens.push_back({role, *std::move(text), std::nullopt});
    if (Status special = add_special(*value, file.special); !special) {
      return std::move(special).error().with(role);
    }
  }
  PHALANX_RETURN_IF_ERROR(read_more_special(config, file.special));
  if (const Json* added = config.find("added_tokens_decoder"); added != nullptr) {
    if (Status status = read_added(*added, file.added); !status) {
      return std::move(status).error().with("added_tokens_decoder");
    }
  }
  PHALANX_RETURN_IF_ERROR(read_chat_template(config, file.templates));
  PHALANX_RETURN_IF_ERROR(read_around(config, file));
  PHALANX_TRY(const bool splits, bool_field(config, "split_special_tokens", false));
  if (splits) {
    return unimplemented("split_special_tokens: expected false, found true: not supported");
  }
  return file;
}

Result<TemplateSources> read_template_json(std::string_view json) {
  PHALANX_TRY(const Json config, parse_json(json, "file"));
  if (config.as_object() == nullptr) {
    return expected("an object", config);
  }
  TemplateSources templates;
  PHALANX_RETURN_IF_ERROR(read_chat_template(config, templates));
  return templates;
}

}  // namespace phalanx::tokenizer
