// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/tokenizer_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_goldens.h"
#include "support/temp_dir.h"

namespace phalanx::tokenizer {
namespace {

using testing::HasSubstr;

constexpr std::size_t kOriginAt = 12;  // its length, behind magic, version and kind

template <typename T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string sized(std::string_view text) {
  return number(std::uint64_t{text.size()}) + std::string(text);
}

TokenizerSource small_source() {
  return {.origin = "/m",
          .content = TokenizerTexts{.tokenizer_json = "{}",
                                    .config_json = "[1]",
                                    .templates = {.chat = "{{ x }}", .tool_use = "t"},
                                    .model_tokens = 7}};
}

// Metadata of a file that promises a tensor.
GgufHead head_of(test::GgufWriter writer) {
  const std::vector<std::byte> bytes =
      writer.tensor("w", 0, {4}, std::vector<std::byte>(16)).finish();
  const std::size_t size = gguf::File::parse(bytes)->metadata_bytes();
  return {std::string(reinterpret_cast<const char*>(bytes.data()), size)};
}

// The fewest tokens that make a tokenizer.
TokenizerSource small_gguf_source() {
  test::GgufWriter writer;
  writer.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "qwen2")
      .texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>"})
      .integers("tokenizer.ggml.token_type", {1, 1, 1, 3})
      .texts("tokenizer.ggml.merges", {"a b"})
      .text("tokenizer.chat_template", "{{ messages }}")
      .text("tokenizer.chat_template.tool_use", "{{ tools }}");
  return {.origin = "m.gguf", .content = head_of(std::move(writer))};
}

void expect_refused(const std::string& bytes, Code code, const std::vector<std::string>& message) {
  const auto source = tokenizer_source_from(bytes);
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().code(), code) << source.error().to_string();
  EXPECT_THAT(source.error().message(), HasSubstr("source of a tokenizer: "));
  for (const std::string& part : message) {
    EXPECT_THAT(source.error().message(), HasSubstr(part));
  }
}

// What a process makes that has the bytes and no file.
std::unique_ptr<Tokenizer> made_of_bytes(const std::string& bytes) {
  const auto source = tokenizer_source_from(bytes);
  EXPECT_TRUE(source.has_value()) << source.error().to_string();
  auto made = load_tokenizer(*source);
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  return made ? *std::move(made) : nullptr;
}

void expect_equal(const Tokenizer& tokenizer, const Tokenizer& expected) {
  ASSERT_EQ(tokenizer.vocab_size(), expected.vocab_size());
  for (std::size_t id = 0; id < expected.vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    ASSERT_EQ(tokenizer.token_bytes(token), expected.token_bytes(token)) << id;
    ASSERT_EQ(tokenizer.is_special(token), expected.is_special(token)) << id;
  }
  for (const bool special : {false, true}) {
    const EncodeOptions options{.parse_special = special, .add_special_tokens = special};
    const auto ids = expected.encode("The server's <|im_end|> \u00e9\u65e5 42  aab\n", options);
    EXPECT_EQ(*tokenizer.encode("The server's <|im_end|> \u00e9\u65e5 42  aab\n", options), *ids);
    EXPECT_EQ(tokenizer.decode(*ids), expected.decode(*ids));
  }
  EXPECT_EQ(tokenizer.eos_id(), expected.eos_id());
  EXPECT_EQ(tokenizer.named_tokens().size(), expected.named_tokens().size());
  EXPECT_EQ(tokenizer.chat_template(), expected.chat_template());
  EXPECT_EQ(tokenizer.tool_use_template(), expected.tool_use_template());
}

TEST(TokenizerSource, HasTheBytesThatItsHeaderNames) {
  const std::string head = "PhxT" + number(std::uint32_t{2});
  EXPECT_EQ(to_bytes(small_source()),
            head + number(std::uint32_t{1}) + sized("/m") + sized("{}") + sized("[1]") +
                sized("{{ x }}") + sized("t") + number(std::uint32_t{7}));
  EXPECT_EQ(to_bytes({.origin = "f", .content = GgufHead{"GGUF"}}),
            head + number(std::uint32_t{2}) + sized("f") + sized("GGUF") + sized("") + sized(""));
}

TEST(TokenizerSource, ComesBackFromItsBytes) {
  const auto texts = tokenizer_source_from(to_bytes(small_source()));
  ASSERT_TRUE(texts.has_value()) << texts.error().to_string();
  EXPECT_EQ(texts->origin, "/m");
  const auto* content = std::get_if<TokenizerTexts>(&texts->content);
  ASSERT_NE(content, nullptr);
  EXPECT_EQ(content->tokenizer_json, "{}");
  EXPECT_EQ(content->config_json, "[1]");
  EXPECT_EQ(content->templates.chat, "{{ x }}");
  EXPECT_EQ(content->templates.tool_use, "t");
  EXPECT_EQ(content->model_tokens, 7U);
  const TokenizerSource gguf = small_gguf_source();
  const auto back = tokenizer_source_from(to_bytes(gguf));
  ASSERT_TRUE(back.has_value()) << back.error().to_string();
  ASSERT_TRUE(std::holds_alternative<GgufHead>(back->content));
  EXPECT_EQ(std::get<GgufHead>(back->content).bytes, std::get<GgufHead>(gguf.content).bytes);
}

TEST(TokenizerSource, MakesTheTokenizerOfTheFolder) {
  const auto folder =
      std::filesystem::path(PHALANX_SOURCE_DIR) / "deploy" / "models" / "phalanx-tiny";
  const auto source = read_tokenizer_source(folder);
  ASSERT_TRUE(source.has_value()) << source.error().to_string();
  EXPECT_EQ(source->origin, folder.string());
  const auto expected = load_tokenizer_from_text(read_text(folder / "tokenizer.json"),
                                                 read_text(folder / "tokenizer_config.json"));
  ASSERT_TRUE(expected.has_value()) << expected.error().to_string();
  EXPECT_NE((*expected)->chat_template(), "");
  expect_equal(*made_of_bytes(to_bytes(*source)), **expected);
  expect_equal(**load_tokenizer(folder), **expected);
}

TEST(TokenizerSource, KeepsTheTemplatesOfFilesOfTheirOwn) {
  const test::TempDir place;
  place.write("tokenizer.json", fixture_json().dump());
  place.write("tokenizer_config.json",
              R"({"chat_template": "of the config", "eos_token": "<|im_end|>"})");
  place.write("chat_template.jinja", "of a file");
  place.write("additional_chat_templates/tool_use.jinja", "for tools");
  const auto source = read_tokenizer_source(place.path());
  ASSERT_TRUE(source.has_value()) << source.error().to_string();
  const auto tokenizer = made_of_bytes(to_bytes(*source));
  EXPECT_EQ(tokenizer->chat_template(), "of a file");
  EXPECT_EQ(tokenizer->tool_use_template(), "for tools");
  EXPECT_EQ(tokenizer->eos_id(), fixture().id_of("<|im_end|>"));
}

// An optional file that is there is right, or said.
TEST(TokenizerSource, RefusesFilesThatAreThereAndCannotBeRead) {
  const auto expect_code = [](const test::TempDir& place, const std::string& name, Code code) {
    SCOPED_TRACE(name);
    const auto source = read_tokenizer_source(place.path());
    ASSERT_FALSE(source.has_value());
    EXPECT_EQ(source.error().code(), code) << source.error().to_string();
    EXPECT_THAT(source.error().message(), HasSubstr((place.path() / name).string()));
  };
  for (const std::string name : {"tokenizer_config.json",
                                 "chat_template.jinja",
                                 "chat_template.json",
                                 "additional_chat_templates/tool_use.jinja"}) {
    const test::TempDir place;
    place.write("tokenizer.json", "{}");
    if (name.starts_with("additional")) {
      place.write("chat_template.jinja", "x");
    }
    ASSERT_TRUE(read_tokenizer_source(place.path()).has_value()) << "absent: " << name;
    const std::filesystem::path file = place.write(name, "");
    expect_code(place, name, Code::kDataLoss);
    std::filesystem::remove(file);
    std::filesystem::create_symlink("nowhere", file);
    expect_code(place, name, Code::kNotFound);
    std::filesystem::remove(file);
    std::filesystem::create_symlink(file.filename(), file);
    expect_code(place, name, Code::kNotFound);
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    expect_code(place, name, Code::kInvalidArgument);
    std::filesystem::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    expect_code(place, name, Code::kInvalidArgument);
  }
}

TEST(TokenizerSource, MakesTheTokenizerOfAGgufFile) {
  const std::vector<std::byte> file = gguf_of(fixture_json(), "qwen2");
  const std::size_t size = gguf::File::parse(file)->metadata_bytes();
  const TokenizerSource source{
      .origin = "m.gguf",
      .content = GgufHead{std::string(reinterpret_cast<const char*>(file.data()), size)}};
  expect_equal(*made_of_bytes(to_bytes(source)), *load_gguf(file));
  const auto small = made_of_bytes(to_bytes(small_gguf_source()));
  EXPECT_EQ(*small->encode("aba"), (std::vector<TokenId>{2, 0}));
  EXPECT_EQ(small->chat_template(), "{{ messages }}");
  EXPECT_EQ(small->tool_use_template(), "{{ tools }}");
}

TEST(TokenizerSource, SaysInErrorsWhereItIsFrom) {
  const auto texts = load_tokenizer(small_source());
  ASSERT_FALSE(texts.has_value());
  EXPECT_THAT(texts.error().message(), testing::StartsWith("/m: tokenizer.json: "));
  GgufHead head = std::get<GgufHead>(small_gguf_source().content);
  head.bytes += "x";
  const auto gguf = load_tokenizer(TokenizerSource{.origin = "m.gguf", .content = head});
  ASSERT_FALSE(gguf.has_value());
  EXPECT_EQ(gguf.error().code(), Code::kDataLoss);
  EXPECT_THAT(gguf.error().message(), testing::StartsWith("m.gguf: expected the end"));
}

TEST(TokenizerSource, RefusesBytesThatEndAnywhereOrGoOn) {
  for (const TokenizerSource& source : {small_source(), small_gguf_source()}) {
    const std::string whole = to_bytes(source);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      SCOPED_TRACE(size);
      expect_refused(whole.substr(0, size),
                     Code::kDataLoss,
                     {"expected", "found", "before the end: truncated"});
    }
    expect_refused(whole + '\0', Code::kDataLoss, {"behind the last part", "found 1 bytes more"});
  }
}

TEST(TokenizerSource, RefusesAnotherMagicVersionOrKind) {
  const auto with = [](std::size_t at, const std::string& bytes) {
    return to_bytes(small_source()).replace(at, bytes.size(), bytes);
  };
  expect_refused(with(0, "Phx\x1b"), Code::kDataLoss, {"\"PhxT\"", "Phx\\u{1b}"});
  for (const std::uint32_t version : {0U, 1U, 3U, ~0U}) {
    expect_refused(with(4, number(version)),
                   Code::kUnimplemented,
                   {"version: expected 2, found " + std::to_string(version)});
  }
  for (const std::uint32_t kind : {0U, 3U}) {
    expect_refused(with(8, number(kind)),
                   Code::kDataLoss,
                   {"kind: expected 1 or 2, found " + std::to_string(kind)});
  }
}

// Nothing that is too long is looked for, whether or not it is there.
TEST(TokenizerSource, RefusesPartsThatAreTooLong) {
  struct Part {
    const char* name;
    std::size_t before;  // the bytes of the parts before it
    std::size_t most;
  };
  const auto refused = [](const TokenizerSource& source, const Part& part) {
    SCOPED_TRACE(part.name);
    for (const std::uint64_t length : {std::uint64_t{part.most} + 1, ~std::uint64_t{0}}) {
      expect_refused(
          to_bytes(source).replace(kOriginAt + part.before, sizeof length, number(length)),
          Code::kInvalidArgument,
          {part.name,
           "expected at most " + std::to_string(part.most),
           "found " + std::to_string(length)});
    }
    expect_refused(
        to_bytes(source).replace(
            kOriginAt + part.before, sizeof(std::uint64_t), number(std::uint64_t{part.most})),
        Code::kDataLoss,
        {part.name, "truncated"});
  };
  for (const Part& part : {Part{"origin", 0, kMaxOriginBytes},
                           Part{"tokenizer.json", 8 + 2, kMaxTokenizerBytes},
                           Part{"tokenizer_config.json", 16 + 4, kMaxConfigBytes},
                           Part{"chat template", 24 + 7, kMaxTemplateBytes},
                           Part{"template for tools", 32 + 14, kMaxTemplateBytes}}) {
    refused(small_source(), part);
  }
  refused(small_gguf_source(), {"head of a GGUF file", 8 + 6, kMaxGgufHeadBytes});
  TokenizerSource long_template = small_source();
  std::get<TokenizerTexts>(long_template.content).templates.chat =
      std::string(kMaxTemplateBytes + 1, 'x');
  expect_refused(to_bytes(long_template), Code::kInvalidArgument, {"chat template"});
}

// Every byte changed to others: what is read is a source, and makes a tokenizer or says why not.
TEST(TokenizerSource, SurvivesAnyByte) {
  TokenizerSource texts = small_source();
  const std::string tokenizer =
      R"({"normalizer": null, "decoder": {"type": "ByteLevel"},)"
      R"( "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},)"
      R"( "model": {"type": "BPE", "merges": ["a b"], "vocab": {"a": 0, "b": 1, "ab": 2}}})";
  texts.content = TokenizerTexts{.tokenizer_json = tokenizer,
                                 .config_json = R"({"eos_token": "ab"})",
                                 .templates = {.chat = "{{ x }}", .tool_use = "t"}};
  for (const TokenizerSource& source : {texts, small_gguf_source()}) {
    const std::string whole = to_bytes(source);
    ASSERT_NE(made_of_bytes(whole), nullptr);
    std::size_t made = 0;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const unsigned flip : {0x01U, 0x08U, 0x20U, 0x80U, 0xFFU}) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
        const auto read = tokenizer_source_from(bytes);
        if (!read) {
          EXPECT_FALSE(read.error().message().empty());
          continue;
        }
        EXPECT_EQ(to_bytes(*read), bytes);
        const auto loaded = load_tokenizer(*read);
        made += loaded ? 1U : 0U;
        EXPECT_TRUE(!loaded || (*loaded)->encode("ab ba").has_value());
      }
    }
    EXPECT_GT(made, 0U) << "those with another letter in a template";
    EXPECT_LT(made, whole.size() * 5);
  }
}

}  // namespace
}  // namespace phalanx::tokenizer
