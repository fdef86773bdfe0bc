// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/utf8.h"

#include "load_steps.h"
#include "nfc.h"
#include "tokenizer_data.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

Status check_template(const std::string& source) {
  PHALANX_RETURN_IF_ERROR(check_size(source.size(), kMaxTemplateBytes));
  return is_valid_utf8(source) ? ok() : Status(invalid_argument("expected UTF-8"));
}

// What finds them takes some tens of bytes for each of theirs.
Status check_added(const std::vector<AddedToken>& added) {
  std::size_t all = 0;
  for (const AddedToken& token : added) {
    if (token.content.size() > kMaxAddedTokenBytes) {
      return invalid_argument("id " + std::to_string(token.id) +
                              ": expected an added token of at most " +
                              std::to_string(kMaxAddedTokenBytes) + " bytes, found " +
                              std::to_string(token.content.size()));
    }
    all += token.content.size();
  }
  if (all > kMaxAddedBytes) {
    return invalid_argument("expected added tokens of at most " + std::to_string(kMaxAddedBytes) +
                            " bytes together, found " + std::to_string(all));
  }
  return ok();
}

void make_finders(std::vector<AddedToken> added, Tokenizer::Data& data) {
  std::vector<AddedToken> as_given;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : added) {
    if (is_for_templates_only(token) && !data.bpe->makes(token.id)) {
      data.bpe->withhold(token.id);
    }
    if (token.normalized) {
      token.content = data.normalizer.apply(token.content);
    }
    (token.normalized ? normalized : as_given).push_back(std::move(token));
  }
  // Without a normaliser both kinds are looked for in the same text, yet still one after the other.
  data.added_as_given = AddedTokenFinder(std::move(as_given));
  data.added_normalized = AddedTokenFinder(std::move(normalized));
}

// The added tokens by their content.
class AddedTokens {
 public:
  AddedTokens(Tokenizer::Data& data, std::vector<AddedToken>& added) : data_(data), added_(added) {
    for (std::size_t i = 0; i < added.size(); ++i) {
      places_.emplace(added[i].content, i);
    }
  }

  [[nodiscard]] const AddedToken* find(const std::string& content) const {
    const auto place = places_.find(content);
    return place == places_.end() ? nullptr : &added_[place->second];
  }

  // One that is there keeps its id, and stays special. A word that merging makes of ordinary text
  // does not become special: it would be missing from answers.
  [[nodiscard]] Status put(AddedToken token) {
    if (const AddedToken* const there = find(token.content)) {
      token.id = there->id;
      token.special = token.special || there->special;
    }
    token.special = token.special && !data_.bpe->makes(token.id);
    PHALANX_RETURN_IF_ERROR(insert_added_token(token, data_));
    if (token.special) {
      data_.bpe->withhold(token.id);
    }
    const auto [place, is_new] = places_.emplace(token.content, added_.size());
    if (is_new) {
      added_.push_back(std::move(token));
    } else {
      added_[place->second] = std::move(token);
    }
    return ok();
  }

 private:
  Tokenizer::Data& data_;
  std::vector<AddedToken>& added_;
  std::map<std::string, std::size_t> places_;
};

// As transformers does behind reading tokenizer.json. What names a role is special even where both
// files say that it is not: no client is to write it.
Status add_config_tokens(const ConfigFile& config,
                         Tokenizer::Data& data,
                         std::vector<AddedToken>& added) {
  std::vector<AddedToken> listed = config.added;
  leave_out_beyond_model(data, listed);
  AddedTokens tokens(data, added);
  for (AddedToken& token : listed) {
    PHALANX_RETURN_IF_ERROR(tokens.put(std::move(token)));
  }
  std::set<std::string_view> roles;
  for (const NamedToken& role : config.named_tokens) {
    roles.insert(role.text);
  }
  for (const AddedToken& special : config.special) {
    AddedToken token = special;
    if (const AddedToken* const there = tokens.find(token.content)) {
      if (!roles.contains(token.content)) {
        continue;
      }
      token = *there;
      token.special = true;
    } else if (const auto id = data.vocabulary.find(data.stored(token.content))) {
      token.id = *id;
    } else {
      continue;  // the model has none
    }
    PHALANX_RETURN_IF_ERROR(tokens.put(std::move(token)));
  }
  return ok();
}

// What stands at one end of a text. Without a role the classes have a token of their own.
Result<std::vector<TokenId>> role_ids(const Tokenizer::Data& data,
                                      std::string_view role,
                                      std::string_view own,
                                      bool wanted) {
  if (!wanted) {
    return std::vector<TokenId>();
  }
  const auto named = std::find_if(data.named_tokens.begin(),
                                  data.named_tokens.end(),
                                  [&](const NamedToken& token) { return token.name == role; });
  const bool is_named = named != data.named_tokens.end() && !named->text.empty();
  const std::optional<TokenId> id = is_named ? named->id : data.vocabulary.find(own);
  if (!id) {
    return invalid_argument("add_" + std::string(role) + ": expected a " + std::string(role) +
                            " that the vocabulary has, found none; false does without");
  }
  return std::vector<TokenId>{*id};
}

Status apply_config(std::string_view json, Tokenizer::Data& data, std::vector<AddedToken>& added) {
  if (json.empty()) {
    return ok();
  }
  PHALANX_RETURN_IF_ERROR(check_size(json.size(), kMaxConfigBytes));
  PHALANX_TRY(ConfigFile config, read_tokenizer_config(json));
  if (Status status = add_config_tokens(config, data, added); !status) {
    return std::move(status).error().with("added_tokens_decoder");
  }
  for (NamedToken& token : config.named_tokens) {
    token.id = data.vocabulary.find(data.stored(token.text));
  }
  data.named_tokens = std::move(config.named_tokens);
  if (config.around) {
    PHALANX_TRY(data.prefix_ids, role_ids(data, "bos_token", "<s>", config.around->bos));
    PHALANX_TRY(data.suffix_ids, role_ids(data, "eos_token", "</s>", config.around->eos));
  }
  data.templates = std::move(config.templates);
  return ok();
}

}  // namespace

Status check_size(std::size_t bytes, std::size_t bytes_max) {
  if (bytes > bytes_max) {
    return invalid_argument("expected at most " + std::to_string(bytes_max) + " bytes, found " +
                            std::to_string(bytes));
  }
  return ok();
}

void leave_out_beyond_model(Tokenizer::Data& data, std::vector<AddedToken>& added) {
  if (data.model_tokens == 0) {
    return;
  }
  std::set<std::string> known(data.left_out.begin(), data.left_out.end());
  std::erase_if(added, [&](const AddedToken& token) {
    if (static_cast<std::uint32_t>(token.id) < data.model_tokens) {
      return false;
    }
    if (known.insert(token.content).second) {
      data.left_out.push_back(token.content);
    }
    return true;
  });
}

Result<std::unique_ptr<Tokenizer>> finish_tokenizer(std::unique_ptr<Tokenizer::Data> data,
                                                    std::vector<AddedToken> added) {
  for (const std::string* source : {&data->templates.chat, &data->templates.tool_use}) {
    if (Status status = check_template(*source); !status) {
      return std::move(status).error().with("chat template");
    }
  }
  PHALANX_RETURN_IF_ERROR(check_added(added));
  make_finders(std::move(added), *data);
  // The tables of normalisation are made at their first use, which a request should not pay for.
  static_cast<void>(is_plainly_nfc(kReplacementCharacter));
  return std::make_unique<Tokenizer>(std::move(data));
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer_from_text(std::string_view tokenizer_json,
                                                            std::string_view config_json,
                                                            const TemplateSources& templates,
                                                            std::uint32_t model_tokens) {
  auto data = std::make_unique<Tokenizer::Data>();
  data->model_tokens = model_tokens;
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

}  // namespace phalanx::tokenizer
