// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/tokenizer/text_segment.h"

namespace phalanx::gguf {
class Metadata;
}

namespace phalanx::tokenizer {

// What the files may claim before they are refused.
// tokenizer.json, or the tokens and merges of a GGUF file
inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;    // tokenizer_config.json
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;  // a chat template
inline constexpr TokenId kMaxTokenId = (1 << 22) - 1;
inline constexpr std::size_t kMaxAddedTokens = std::size_t{1} << 16;
inline constexpr std::size_t kMaxAddedTokenBytes = 4096;             // of one
inline constexpr std::size_t kMaxAddedBytes = std::size_t{4} << 20;  // of all

struct EncodeOptions {
  // Whether the spelling of a special token ("<|im_end|>") in the text becomes that token. If not,
  // it is ordinary text. Added tokens that the file does not call special ("<think>") are part of
  // the model's ordinary vocabulary and are matched either way, except those from "<|" to "|>" or
  // from "<｜" to "｜>": models spell their turns so ("<｜User｜>"), and many files do not call
  // them special. Those of files and holes in them ("<|fim_prefix|>") are no turns.
  bool parse_special = false;
  // Whether to add what the post-processor of tokenizer.json adds, such as a begin-of-text token.
  // A prompt from a chat template already spells it out.
  bool add_special_tokens = false;
};

struct DecodeOptions {
  bool skip_special = true;  // leave special tokens out of the text
  // The text goes on from earlier text. SentencePiece-style vocabularies begin a text with a space
  // that is not part of it; without this it is left out.
  bool continues = false;
};

// A token that tokenizer_config.json gives a role, by its spelling and, if the vocabulary has it,
// its id.
struct NamedToken {
  std::string name;  // "bos_token", "eos_token", "pad_token", "unk_token"
  std::string text;
  std::optional<TokenId> id;
};

// Sources of a model's chat templates; empty where it has none.
struct TemplateSources {
  std::string chat;
  std::string
      tool_use;  // for conversations with tools, of a model that has one of its own for them
};

// Text to token ids and back, equal to what the `tokenizers` library computes from the same
// tokenizer.json: byte-level BPE, and BPE of characters with byte fallback in the manner of
// SentencePiece. From a GGUF file the same, and SentencePiece's merging by scores.
//
// Where this differs: a byte or character for which the vocabulary has nothing is left out, even if
// the file names a special token for it, because text must not become a special token; and bytes
// that form no character decode to one U+FFFD for each maximal ill-formed part also where the
// library, in vocabularies with byte fallback, gives one for each byte.
//
// Ownership: owns everything; the files are not needed after load.
// Threads:   all functions are const and may be called from any thread at the same time.
// Cost:      encode is O(n log n) in the length of the text, whatever the text is.
class Tokenizer {
 public:
  struct Data;  // internal

  explicit Tokenizer(std::unique_ptr<const Data> data);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Token ids of `text`. Bytes that are not UTF-8 are taken as U+FFFD, one for each maximal
  // ill-formed part, which is how they would have arrived through a JSON decoder that replaces.
  //
  // Errors: kResourceExhausted  the pre-tokenizer's expression gave up on this text (its match
  //                             limit), which the expressions of known models never do
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text,
                                                    EncodeOptions options = {}) const;

  // Token ids of a rendered prompt: the ids of the concatenated text, except that what encode()
  // matches with parse_special alone is recognised only where every byte of it comes from the
  // template. So an ordinary conversation gives exactly what encode() with parse_special gives, and
  // no text of a client can become a special token, not even one half of which stands in the
  // template.
  //
  // Errors: as encode().
  [[nodiscard]] Result<std::vector<TokenId>> encode_segments(
      std::span<const TextSegment> segments) const;

  // The text of `ids`: their bytes joined, each maximal ill-formed part replaced by U+FFFD. An
  // added token stands for its own text. An id without a token contributes nothing.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  // The bytes that a token stands for, possibly a part of a character; empty for an id without a
  // token. The view lives as long as the tokenizer.
  [[nodiscard]] std::string_view token_bytes(TokenId id) const;
  // token_bytes() as valid UTF-8, broken parts replaced by U+FFFD.
  [[nodiscard]] std::string token_text(TokenId id) const;

  // The token that stands for exactly these bytes: an added token of that content, else one of the
  // vocabulary.
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view bytes) const;

  [[nodiscard]] bool contains(TokenId id) const;
  [[nodiscard]] bool is_special(TokenId id) const;
  // One more than the highest id. The model's logits may be wider (padding), never narrower.
  [[nodiscard]] std::size_t vocab_size() const;
  // The contents of added tokens that the model has no room for; in a text they are as any text.
  [[nodiscard]] const std::vector<std::string>& left_out() const;

  [[nodiscard]] std::optional<TokenId> bos_id() const;
  [[nodiscard]] std::optional<TokenId> eos_id() const;
  [[nodiscard]] std::optional<TokenId> pad_id() const;
  // Whether decoding leaves out a space at the start of a text; see DecodeOptions::continues.
  [[nodiscard]] bool strips_first_space() const;
  // Every role that tokenizer_config.json gives, in its order; chat templates see them by name.
  [[nodiscard]] std::span<const NamedToken> named_tokens() const;
  // Source of the model's chat template; empty if it has none.
  [[nodiscard]] const std::string& chat_template() const;
  // That of the template for conversations with tools, of a model that has one of its own.
  [[nodiscard]] const std::string& tool_use_template() const;

 private:
  std::unique_ptr<const Data> data_;
};

// Reads tokenizer.json, tokenizer_config.json (optional) and the chat template of a model folder:
// chat_template.jinja, else that of chat_template.json, else that of the config. A JSON file may
// hold several by name, of which "default" and "tool_use" are taken; beside chat_template.jinja the
// latter is additional_chat_templates/tool_use.jinja.
//
// Blocks:  reads files; about 0.2 s for a vocabulary of 150,000.
// Errors:  as read_tokenizer_source()
//          kInvalidArgument  a file is not what it must be; names the file, what was expected and
//                            what was found
//          kUnimplemented    the file uses a component that this version does not have, by name
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> load_tokenizer(
    const std::filesystem::path& folder);

// The same from the metadata of a GGUF file: vocabularies of the kinds "gpt2" (BPE) and "llama"
// (merging by scores), named tokens and chat template. "tokenizer.ggml.pre" names the
// pre-tokenizer; the expressions are those of the models that these names were made for, NFC of the
// Qwen ones included. The metadata is not needed afterwards. `templates` with a source stand for
// those that the metadata names.
//
// Errors: kNotFound         no vocabulary in it
//         kInvalidArgument  a key is not what it must be
//         kUnimplemented    another kind of vocabulary or pre-tokenizer, naming those there are
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> load_tokenizer(
    const gguf::Metadata& metadata, const TemplateSources& templates = {});

// The same from the contents of the files; `config_json` may be empty. `templates` with a source
// stand for all that the config names. Added tokens with ids from `model_tokens` on are left out
// and told by left_out(): people add tokens, for padding mostly, that no model was made for. 0:
// none is.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> load_tokenizer_from_text(
    std::string_view tokenizer_json,
    std::string_view config_json = {},
    const TemplateSources& templates = {},
    std::uint32_t model_tokens = 0);

}  // namespace phalanx::tokenizer
