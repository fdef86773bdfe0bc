// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>
#include <utility>

#include "phalanx/base/printable.h"
#include "phalanx/tokenizer/tokenizer_source.h"

#include "load_steps.h"

namespace phalanx::tokenizer {
namespace {

static_assert(std::endian::native == std::endian::little, "the bytes lie as numbers do in memory");

constexpr std::string_view kMagic = "PhxT";

// Numbered as in the bytes.
enum class SourceKind : std::uint32_t { kTexts = 1, kGguf = 2 };

class SourceWriter {
 public:
  explicit SourceWriter(SourceKind kind) : bytes_(kMagic) {
    number(kTokenizerSourceVersion);
    number(static_cast<std::uint32_t>(kind));
  }

  SourceWriter& part(std::string_view text) {
    number(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
    return *this;
  }

  template <typename T>
  SourceWriter& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }

  [[nodiscard]] std::string finish() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Takes from the front of bytes that may end or lie at any place.
class SourceReader {
 public:
  explicit SourceReader(std::string_view bytes) : left_(bytes) {}

  Result<SourceKind> head() {
    PHALANX_TRY(const std::string_view magic, take(kMagic.size(), "the magic"));
    if (magic != kMagic) {
      return data_loss("expected bytes that begin with \"" + std::string(kMagic) + "\", found \"" +
                       printable(magic) + "\"");
    }
    PHALANX_TRY(const auto version, number<std::uint32_t>("the version"));
    if (version != kTokenizerSourceVersion) {
      return unimplemented("version: expected " + std::to_string(kTokenizerSourceVersion) +
                           ", found " + std::to_string(version));
    }
    PHALANX_TRY(const auto kind, number<std::uint32_t>("the kind"));
    if (kind != static_cast<std::uint32_t>(SourceKind::kTexts) &&
        kind != static_cast<std::uint32_t>(SourceKind::kGguf)) {
      return data_loss("kind: expected 1 or 2, found " + std::to_string(kind));
    }
    return static_cast<SourceKind>(kind);
  }

  Result<std::string> part(const char* name, std::size_t bytes_max) {
    PHALANX_TRY(const auto length, number<std::uint64_t>(name));
    if (Status status = check_size(length, bytes_max); !status) {
      return std::move(status).error().with(name);
    }
    PHALANX_TRY(const std::string_view text, take(length, name));
    return std::string(text);
  }

  template <typename T>
  Result<T> number(const char* what) {
    PHALANX_TRY(const std::string_view bytes, take(sizeof(T), what));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  [[nodiscard]] Status end() const {
    return left_.empty() ? ok()
                         : Status(data_loss("expected the end behind the last part, found " +
                                            std::to_string(left_.size()) + " bytes more"));
  }

 private:
  Result<std::string_view> take(std::size_t count, const char* what) {
    if (count > left_.size()) {
      return data_loss(std::string(what) + ": expected " + std::to_string(count) +
                       " bytes, found " + std::to_string(left_.size()) +
                       " before the end: truncated, or a length that lies");
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::string_view left_;
};

std::string bytes_of_content(const std::string& origin, const TokenizerTexts& texts) {
  return SourceWriter(SourceKind::kTexts)
      .part(origin)
      .part(texts.tokenizer_json)
      .part(texts.config_json)
      .part(texts.templates.chat)
      .part(texts.templates.tool_use)
      .number(texts.model_tokens)
      .finish();
}

std::string bytes_of_content(const std::string& origin, const GgufHead& head) {
  return SourceWriter(SourceKind::kGguf)
      .part(origin)
      .part(head.bytes)
      .part(head.templates.chat)
      .part(head.templates.tool_use)
      .finish();
}

Result<TemplateSources> read_templates(SourceReader& reader) {
  TemplateSources templates;
  PHALANX_TRY(templates.chat, reader.part("chat template", kMaxTemplateBytes));
  PHALANX_TRY(templates.tool_use, reader.part("template for tools", kMaxTemplateBytes));
  return templates;
}

Result<TokenizerTexts> read_texts(SourceReader& reader) {
  TokenizerTexts texts;
  PHALANX_TRY(texts.tokenizer_json, reader.part(kTokenizerFile, kMaxTokenizerBytes));
  PHALANX_TRY(texts.config_json, reader.part(kConfigFile, kMaxConfigBytes));
  PHALANX_TRY(texts.templates, read_templates(reader));
  PHALANX_TRY(texts.model_tokens, reader.number<std::uint32_t>("tokens of the model"));
  return texts;
}

Result<GgufHead> read_head(SourceReader& reader) {
  GgufHead head;
  PHALANX_TRY(head.bytes, reader.part("head of a GGUF file", kMaxGgufHeadBytes));
  PHALANX_TRY(head.templates, read_templates(reader));
  return head;
}

Result<TokenizerSource> read_source(std::string_view bytes) {
  SourceReader reader(bytes);
  PHALANX_TRY(const SourceKind kind, reader.head());
  TokenizerSource source;
  PHALANX_TRY(source.origin, reader.part("origin", kMaxOriginBytes));
  if (kind == SourceKind::kTexts) {
    PHALANX_TRY(source.content, read_texts(reader));
  } else {
    PHALANX_TRY(source.content, read_head(reader));
  }
  PHALANX_RETURN_IF_ERROR(reader.end());
  return source;
}

}  // namespace

std::string to_bytes(const TokenizerSource& source) {
  return std::visit([&](const auto& content) { return bytes_of_content(source.origin, content); },
                    source.content);
}

Result<TokenizerSource> tokenizer_source_from(std::string_view bytes) {
  auto source = read_source(bytes);
  if (!source) {
    return std::move(source).error().with("source of a tokenizer");
  }
  return source;
}

}  // namespace phalanx::tokenizer
