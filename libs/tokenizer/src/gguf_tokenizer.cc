// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a GGUF file.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/utf8.h"
#include "phalanx/gguf/metadata.h"

#include "load_steps.h"
#include "pre_tokenizer_json.h"
#include "tokenizer_json.h"

namespace phalanx::tokenizer {
namespace {

using gguf::Metadata;

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";

// A token that is merged by score may be cut at each of its characters; the cost of finding the
// cuts grows with the square of its length.
constexpr std::size_t kMaxScoredTokenBytes = 512;

// Numbered as in the file.
enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct PreTokenizerName {
  std::string_view name;
  std::array<std::string_view, 4> patterns;  // one stage each
  bool nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;
};

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The expressions stand in the tokenizer.json of the models that the names come from; that of
// "default" is what GGUF readers agree on for files older than the names.
constexpr std::array kPreTokenizers{
    PreTokenizerName{"default",
                     {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    PreTokenizerName{"gpt-2", {kGpt2Pattern}},
    PreTokenizerName{"smollm", {R"(\p{N})", kGpt2Pattern}},
    PreTokenizerName{"qwen2", {kQwen2Pattern}, true},
    PreTokenizerName{"deepseek-r1-qwen", {kQwen2Pattern}, true},
    PreTokenizerName{"llama-bpe", {kLlama3Pattern}, false, true, true},
    PreTokenizerName{"llama3", {kLlama3Pattern}, false, true, true},
    PreTokenizerName{"llama-v3", {kLlama3Pattern}, false, true, true},
    PreTokenizerName{"tekken", {kTekkenPattern}, false, true, true},
};

Result<PreTokenizerName> pre_tokenizer_named(std::string_view name) {
  std::string known;
  for (const PreTokenizerName& candidate : kPreTokenizers) {
    if (candidate.name == name) {
      return candidate;
    }
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  return unimplemented(std::string(kPre) + ": pre-tokenizer \"" + std::string(name) +
                       "\" is not supported; supported: " + known);
}

Result<bool> flag(const Metadata& metadata, std::string_view key, bool fallback) {
  return metadata.has(key) ? metadata.boolean(key) : Result<bool>(fallback);
}

// The tokens of a file with what stands beside them, all of one length.
struct TokenTable {
  std::vector<std::string_view> texts;
  std::vector<std::int32_t> types;  // empty: all normal
  std::vector<float> scores;        // empty: none

  [[nodiscard]] TokenType type(std::size_t id) const {
    return types.empty() ? TokenType::kNormal : static_cast<TokenType>(types[id]);
  }
  [[nodiscard]] bool is_added(std::size_t id) const {
    return type(id) == TokenType::kControl || type(id) == TokenType::kUserDefined ||
           type(id) == TokenType::kUnknown;
  }
};

Status check_texts(std::string_view key, const std::vector<std::string_view>& texts) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size();
    if (!is_valid_utf8(texts[i])) {
      return invalid_argument(std::string(key) + ": number " + std::to_string(i) +
                              ": expected UTF-8");
    }
  }
  if (bytes > kMaxTokenizerBytes) {
    return invalid_argument(std::string(key) + ": expected at most " +
                            std::to_string(kMaxTokenizerBytes) + " bytes, found " +
                            std::to_string(bytes));
  }
  return ok();
}

Status check_length(std::string_view key, std::size_t found, std::size_t expected) {
  return found == expected ? ok()
                           : Status(invalid_argument(
                                 std::string(key) + ": expected " + std::to_string(expected) +
                                 " values, one for each token, found " + std::to_string(found)));
}

Result<TokenTable> read_tokens(const Metadata& metadata) {
  if (!metadata.has(kTokens)) {
    return not_found("the file has no vocabulary (" + std::string(kTokens) + ")");
  }
  PHALANX_TRY(const std::uint64_t count, metadata.array_size(kTokens));
  if (count == 0 || count > static_cast<std::uint64_t>(kMaxTokenId) + 1) {
    return invalid_argument(std::string(kTokens) + ": expected 1 to " +
                            std::to_string(kMaxTokenId + 1) + " tokens, found " +
                            std::to_string(count));
  }
  TokenTable table;
  PHALANX_TRY(table.texts, metadata.texts(kTokens));
  PHALANX_RETURN_IF_ERROR(check_texts(kTokens, table.texts));
  if (metadata.has(kTypes)) {
    PHALANX_TRY(table.types, metadata.integers(kTypes));
    PHALANX_RETURN_IF_ERROR(check_length(kTypes, table.types.size(), table.texts.size()));
    for (const std::int32_t type : table.types) {
      if (type < 1 || type > 6) {
        return invalid_argument(std::string(kTypes) + ": expected 1 to 6, found " +
                                std::to_string(type));
      }
    }
  }
  if (metadata.has(kScores)) {
    PHALANX_TRY(table.scores, metadata.floats(kScores));
    PHALANX_RETURN_IF_ERROR(check_length(kScores, table.scores.size(), table.texts.size()));
  }
  return table;
}

// Tokens of the model; then control, unknown and user-defined ones, which are looked for in text.
Status insert_tokens(const TokenTable& table,
                     Spelling spelling,
                     VocabularyFile& file,
                     std::vector<AddedToken>& added) {
  file.vocabulary.reserve(table.texts.size());
  for (std::size_t id = 0; id < table.texts.size(); ++id) {
    if (!table.is_added(id)) {
      const bool reachable = table.type(id) != TokenType::kUnused;
      if (Status status =
              file.add(static_cast<std::int64_t>(id), table.texts[id], spelling, reachable);
          !status) {
        return std::move(status).error().with(kTokens);
      }
    }
  }
  for (std::size_t id = 0; id < table.texts.size(); ++id) {
    if (!table.is_added(id)) {
      continue;
    }
    AddedToken token{.id = static_cast<TokenId>(id),
                     .content = spelling == Spelling::kSpaceMarks
                                    ? without_space_marks(table.texts[id])
                                    : std::string(table.texts[id]),
                     .special = table.type(id) != TokenType::kUserDefined,
                     .normalized = false};
    if (token.content.empty()) {
      return invalid_argument("id " + std::to_string(id) + ": expected a token, found \"\"")
          .with(kTokens);
    }
    if (Status status = file.vocabulary.insert_added(token.id, token.content, token.special);
        !status) {
      return std::move(status).error().with(kTokens);
    }
    token.special = file.vocabulary.kind(token.id) == Vocabulary::Kind::kSpecial;
    added.push_back(std::move(token));
  }
  if (added.size() > kMaxAddedTokens) {
    return invalid_argument(std::string(kTypes) + ": expected at most " +
                            std::to_string(kMaxAddedTokens) + " control and user-defined tokens");
  }
  return ok();
}

Status read_merges(const Metadata& metadata, VocabularyFile& file) {
  PHALANX_TRY(const std::vector<std::string_view> merges, metadata.texts(kMerges));
  PHALANX_RETURN_IF_ERROR(check_texts(kMerges, merges));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Result<MergeText> text = split_merge(merges[i]);
    Status status = text ? file.add_merge(*text, Spelling::kByteLevel) : Status(text.error());
    if (!status) {
      return std::move(status).error().with("number " + std::to_string(i)).with(kMerges);
    }
  }
  return ok();
}

// SentencePiece merges the two neighbours whose joined text is the token of the highest score, the
// leftmost of equals: byte-pair encoding with a merge for every cut of every token, ranked by
// score.
Status merge_by_score(const TokenTable& table, VocabularyFile& file) {
  if (table.scores.empty()) {
    return invalid_argument("expected " + std::string(kScores) + ", found none");
  }
  std::vector<float> scores = table.scores;
  if (!std::all_of(scores.begin(), scores.end(), [](float s) { return std::isfinite(s); })) {
    return invalid_argument(std::string(kScores) + ": expected finite numbers");
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  const Vocabulary& vocabulary = file.vocabulary;
  for (std::size_t i = 0; i < table.texts.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view bytes = vocabulary.bytes(id);
    if (table.type(i) != TokenType::kNormal || vocabulary.find(bytes) != id) {
      continue;
    }
    if (bytes.size() > kMaxScoredTokenBytes) {
      return invalid_argument(std::string(kTokens) + ": number " + std::to_string(i) +
                              ": expected at most " + std::to_string(kMaxScoredTokenBytes) +
                              " bytes, found " + std::to_string(bytes.size()));
    }
    const auto rank = static_cast<std::uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), table.scores[i], std::greater<>()) -
        scores.begin());
    std::size_t cut = 0;
    for (static_cast<void>(next_code_point(bytes, cut)); cut < bytes.size();
         static_cast<void>(next_code_point(bytes, cut))) {
      const auto left = vocabulary.find(bytes.substr(0, cut));
      const auto right = vocabulary.find(bytes.substr(cut));
      if (left && right && vocabulary.in_model(*left) && vocabulary.in_model(*right)) {
        if (Status status = file.add_merge({*left, *right, id, rank}); !status) {
          return std::move(status).error().with("cuts of the tokens").with(kTokens);
        }
      }
    }
  }
  return ok();
}

Result<std::optional<TokenId>> role_id(const Metadata& metadata,
                                       std::string_view key,
                                       const Vocabulary& vocabulary) {
  PHALANX_TRY(const std::optional<std::int64_t> id,
              metadata.token_id(key, static_cast<std::int64_t>(vocabulary.size()) - 1));
  return id ? std::optional(static_cast<TokenId>(*id)) : std::nullopt;
}

Status read_roles(const Metadata& metadata, Tokenizer::Data& data) {
  constexpr std::array<std::pair<const char*, std::string_view>, 4> kRoles{
      {{"bos_token", "tokenizer.ggml.bos_token_id"},
       {"eos_token", "tokenizer.ggml.eos_token_id"},
       {"unk_token", "tokenizer.ggml.unknown_token_id"},
       {"pad_token", "tokenizer.ggml.padding_token_id"}}};
  for (const auto& [name, key] : kRoles) {
    PHALANX_TRY(const std::optional<TokenId> id, role_id(metadata, key, data.vocabulary));
    if (id.has_value()) {
      data.named_tokens.push_back({name, std::string(data.vocabulary.bytes(*id)), id});
    }
  }
  return ok();
}

// What add_special_tokens adds.
Status read_affixes(const Metadata& metadata, bool adds_bos, Tokenizer::Data& data) {
  const auto add = [&](std::string_view what,
                       std::string_view key,
                       std::string_view id_key,
                       bool fallback,
                       std::vector<TokenId>& ids) -> Status {
    PHALANX_TRY(const bool wanted, flag(metadata, key, fallback));
    PHALANX_TRY(const std::optional<TokenId> id, role_id(metadata, id_key, data.vocabulary));
    if (wanted && id.has_value()) {
      ids.push_back(*id);
    }
    // Without a key of its own the file does not promise that there is such a token.
    return !wanted || id.has_value() || !metadata.has(key)
               ? ok()
               : Status(invalid_argument(std::string(key) + ": expected " + std::string(id_key) +
                                         " beside it, found no " + std::string(what)));
  };
  PHALANX_RETURN_IF_ERROR(add("token for the start of a text",
                              "tokenizer.ggml.add_bos_token",
                              "tokenizer.ggml.bos_token_id",
                              adds_bos,
                              data.prefix_ids));
  return add("token for the end of a text",
             "tokenizer.ggml.add_eos_token",
             "tokenizer.ggml.eos_token_id",
             false,
             data.suffix_ids);
}

Status read_bpe(const Metadata& metadata,
                const TokenTable& table,
                Tokenizer::Data& data,
                std::vector<AddedToken>& added) {
  PHALANX_TRY(const std::string_view name,
              metadata.has(kPre) ? metadata.text(kPre) : Result<std::string_view>("default"));
  PHALANX_TRY(const PreTokenizerName pre, pre_tokenizer_named(name));
  for (const std::string_view pattern : pre.patterns) {
    if (!pattern.empty()) {
      PHALANX_TRY(Regex compiled, Regex::compile(pattern));
      data.pre_tokenizer.add_stage(
          std::move(compiled), PreTokenizer::Behavior::kIsolated, /*inverted=*/false);
    }
  }
  PHALANX_TRY(const bool prefix_space, flag(metadata, "tokenizer.ggml.add_space_prefix", false));
  if (prefix_space) {
    return unimplemented("tokenizer.ggml.add_space_prefix true is not supported with \"gpt2\"");
  }
  data.normalizer.nfc = pre.nfc;
  VocabularyFile file(data.vocabulary);
  PHALANX_RETURN_IF_ERROR(insert_tokens(table, Spelling::kByteLevel, file, added));
  PHALANX_RETURN_IF_ERROR(read_merges(metadata, file));
  file.options.ignore_merges = pre.ignore_merges;
  PHALANX_RETURN_IF_ERROR(read_affixes(metadata, pre.adds_bos, data));
  return finish_vocabulary(file, data);
}

Status read_scored(const Metadata& metadata,
                   const TokenTable& table,
                   Tokenizer::Data& data,
                   std::vector<AddedToken>& added) {
  for (const auto* key :
       {"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap"}) {
    if (metadata.has(key) && metadata.boolean(key).value_or(true)) {
      return unimplemented(std::string(key) + " is not supported with \"llama\"");
    }
  }
  PHALANX_TRY(const bool prefix_space, flag(metadata, "tokenizer.ggml.add_space_prefix", true));
  data.normalizer.space_marks = true;
  data.normalizer.prepend_space = prefix_space;
  data.strip_first_space = prefix_space;
  VocabularyFile file(data.vocabulary);
  file.options.characters = true;
  PHALANX_RETURN_IF_ERROR(insert_tokens(table, Spelling::kSpaceMarks, file, added));
  PHALANX_RETURN_IF_ERROR(file.use_byte_fallback());
  PHALANX_RETURN_IF_ERROR(merge_by_score(table, file));
  PHALANX_RETURN_IF_ERROR(read_affixes(metadata, true, data));
  return finish_vocabulary(file, data);
}

Result<TemplateSources> templates_of(const Metadata& metadata) {
  TemplateSources templates;
  if (metadata.has("tokenizer.chat_template")) {
    PHALANX_TRY(templates.chat, metadata.text("tokenizer.chat_template"));
  }
  if (metadata.has("tokenizer.chat_template.tool_use")) {
    PHALANX_TRY(templates.tool_use, metadata.text("tokenizer.chat_template.tool_use"));
  }
  return templates;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const gguf::Metadata& metadata,
                                                  const TemplateSources& templates) {
  PHALANX_TRY(const TokenTable table, read_tokens(metadata));
  PHALANX_TRY(const std::string_view model, metadata.text(kModel));
  auto data = std::make_unique<Tokenizer::Data>();
  std::vector<AddedToken> added;
  if (model == "gpt2") {
    PHALANX_RETURN_IF_ERROR(read_bpe(metadata, table, *data, added));
  } else if (model == "llama") {
    PHALANX_RETURN_IF_ERROR(read_scored(metadata, table, *data, added));
  } else {
    return unimplemented(std::string(kModel) + ": \"" + std::string(model) +
                         "\" is not supported; supported: gpt2, llama");
  }
  PHALANX_RETURN_IF_ERROR(read_roles(metadata, *data));
  PHALANX_TRY(data->templates, templates_of(metadata));
  if (!templates.chat.empty()) {
    data->templates = templates;
  }
  return finish_tokenizer(std::move(data), std::move(added));
}

}  // namespace phalanx::tokenizer
