// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/model_folder.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "phalanx/checkpoint/checkpoint.h"

#include "source_dir.h"
#include "support/gguf_writer.h"
#include "support/temp_dir.h"

namespace phalanx::checkpoint {
namespace {

std::string put(const test::TempDir& folder, const std::string& name) {
  const std::string path = folder.path().string() + "/" + name;
  std::ofstream(path) << "x";
  return path;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The keys of a small tokenizer; `model` makes it a good or a bad one.
test::GgufWriter tokenizer_file(const char* model) {
  test::GgufWriter writer;
  writer.text("tokenizer.ggml.model", model)
      .texts("tokenizer.ggml.tokens", {"a", "b", "ab"})
      .texts("tokenizer.ggml.merges", {"a b"})
      .text("tokenizer.chat_template", "{{ messages }}");
  return writer;
}

test::GgufWriter& add_split(test::GgufWriter& writer, std::uint32_t number) {
  writer.u32("split.no", number).u32("split.count", 2).u32("split.tensors.count", 2);
  const char* name = number == 0 ? "first" : "second";
  return writer.tensor(name, 0, {64}, std::vector<std::byte>(256, std::byte{0xF7}));
}

// Makes the tokenizer as a process does that has the bytes and no file.
Result<std::unique_ptr<tokenizer::Tokenizer>> made_of_bytes(ModelFolder& folder) {
  PHALANX_TRY(const tokenizer::TokenizerSource source, tokenizer_source(folder));
  PHALANX_TRY(const tokenizer::TokenizerSource read,
              tokenizer::tokenizer_source_from(tokenizer::to_bytes(source)));
  return tokenizer::load_tokenizer(read);
}

TEST(ModelFolder, TellsAFolderFromAFile) {
  const test::TempDir place;
  const std::string file = put(place, "m.gguf");
  EXPECT_EQ(ModelFolder(place.path().string()).gguf_name(), "");
  ModelFolder named(file);
  EXPECT_EQ(named.gguf_name(), "m.gguf");
  EXPECT_EQ(named.describe("m.gguf"), file);
  EXPECT_TRUE(named.open("m.gguf").has_value());
  EXPECT_EQ(named.open("../m.gguf").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(named.open("n.gguf").error().code(), Code::kNotFound);
}

TEST(ModelFolder, HasWhatIsThereAndCannotBeOpened) {
  const test::TempDir place;
  ModelFolder folder(place.path().string());
  EXPECT_FALSE(folder.has("a"));
  std::filesystem::create_symlink("nowhere", place.path() / "a");
  std::filesystem::create_symlink("b", place.path() / "b");
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(folder.has(name));
    const auto opened = folder.open(name);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code(), Code::kNotFound);
    EXPECT_NE(opened.error().message().find(folder.describe(name)), std::string::npos);
  }
}

TEST(ModelFolder, KnowsAFileThatWasNotFetched) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1503300328\n";
  const test::TempDir place;
  ModelFolder folder(place.path().string());
  for (const char* name : {"model.safetensors", "tokenizer.json"}) {
    place.write(name, pointer);
    const auto opened = folder.open(name);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code(), Code::kDataLoss);
    EXPECT_NE(opened.error().message().find(std::string(name) + ": expected the file, found a po"),
              std::string::npos)
        << opened.error().message();
  }
  const auto tokenizer = tokenizer_source(folder);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_NE(tokenizer.error().message().find("git lfs pull"), std::string::npos);
  place.write("model.safetensors", pointer + std::string(1024, 'x'));
  EXPECT_TRUE(folder.open("model.safetensors").has_value()) << "too long for one";
}

TEST(ModelFolder, DoesWithoutFilesOnlyWhereTheyAreAbsent) {
  for (const char* name : {"generation_config.json", "model.safetensors.index.json"}) {
    SCOPED_TRACE(name);
    const test::TempDir place;
    std::filesystem::copy(std::filesystem::path(PHALANX_SOURCE_DIR) / "deploy/models/phalanx-tiny",
                          place.path(),
                          std::filesystem::copy_options::recursive);
    ModelFolder folder(place.path().string());
    std::filesystem::remove(place.path() / name);
    EXPECT_TRUE(Checkpoint::open(folder).has_value());
    std::filesystem::create_symlink("nowhere", place.path() / name);
    const auto opened = Checkpoint::open(folder);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code(), Code::kNotFound);
    EXPECT_NE(opened.error().message().find(name), std::string::npos) << opened.error().message();
  }
}

TEST(ModelFolder, GivesTheTokenizerOfAFolderAsBytes) {
  ModelFolder folder(std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny");
  const auto expected = load_tokenizer(folder);
  ASSERT_TRUE(expected.has_value()) << expected.error().message();
  const auto made = made_of_bytes(folder);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ((*made)->vocab_size(), (*expected)->vocab_size());
  EXPECT_EQ(*(*made)->encode("Two words."), *(*expected)->encode("Two words."));
  EXPECT_EQ((*made)->chat_template(), (*expected)->chat_template());
}

// The source is that of the first file, whichever is named, and has nothing of a tensor.
TEST(ModelFolder, GivesTheTokenizerOfASplitModelAsBytes) {
  const test::TempDir place;
  test::GgufWriter first = tokenizer_file("gpt2");
  test::GgufWriter second;
  place.write("m-00001-of-00002.gguf", text_of(add_split(first, 0).finish()));
  place.write("m-00002-of-00002.gguf", text_of(add_split(second, 1).finish()));
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    SCOPED_TRACE(name);
    ModelFolder folder(place.path().string() + "/" + name);
    const auto source = tokenizer_source(folder);
    ASSERT_TRUE(source.has_value()) << source.error().message();
    EXPECT_EQ(source->origin, folder.describe("m-00001-of-00002.gguf"));
    const std::string& head = std::get<tokenizer::GgufHead>(source->content).bytes;
    EXPECT_NE(head.find("split.tensors.count"), std::string::npos);
    EXPECT_EQ(head.find("first"), std::string::npos);
    EXPECT_EQ(head.find('\xF7'), std::string::npos);
    const auto made = made_of_bytes(folder);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(*(*made)->encode("aba"), (std::vector<TokenId>{2, 0}));
    EXPECT_EQ((*made)->chat_template(), "{{ messages }}");
    EXPECT_EQ((*load_tokenizer(folder))->vocab_size(), 3U);
  }
}

// Three tokens, and one put before each text.
std::string tokenizer_json(TokenId before) {
  return R"({"normalizer": null, "decoder": {"type": "ByteLevel"},)"
         R"( "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},)"
         R"( "added_tokens": [{"id": 3, "content": "[PAD]", "special": true}],)"
         R"( "post_processor": {"type": "TemplateProcessing", "pair": [], "single":)"
         R"( [{"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],)"
         R"( "special_tokens": {"s": {"id": "s", "tokens": ["s"], "ids": [)" +
         std::to_string(before) +
         R"(]}}}, "model": {"type": "BPE", "merges": ["a b"], "vocab": {"a": 0, "b": 1, "ab": 2}}})";
}

TEST(ModelFolder, ATokenizerFitsTheModelOrSaysWhatDoesNot) {
  const auto fits = [](TokenId before, std::uint32_t model_tokens) {
    const test::TempDir place;
    place.write("tokenizer.json", tokenizer_json(before));
    ModelFolder folder(place.path().string());
    const auto tokenizer = load_tokenizer(folder, model_tokens);
    return tokenizer ? check_tokens(**tokenizer, model_tokens) : Status(tokenizer.error());
  };
  EXPECT_TRUE(fits(2, 4));
  EXPECT_TRUE(fits(2, 3)) << "an added token is left out";
  EXPECT_TRUE(fits(5, 6)) << "an id without a text is one of the model's";
  const Status more = fits(0, 2);
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message().find("at most 2 tokens, as the model has, found 3"),
            std::string::npos)
      << more.error().message();
  // It would be in front of every prompt.
  const Status around = fits(3, 3);
  ASSERT_FALSE(around);
  EXPECT_NE(around.error().message().find("found 3 put around each text"), std::string::npos)
      << around.error().message();
}

TEST(ModelFolder, SaysWhichAddedTokensAreLeftOut) {
  const test::TempDir place;
  place.write("tokenizer.json", tokenizer_json(0));
  ModelFolder folder(place.path().string());
  const auto tokenizer = load_tokenizer(folder, 3);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_NE(left_out_text(**tokenizer).find("1 added token "), std::string::npos);
  EXPECT_NE(left_out_text(**tokenizer).find("[PAD]"), std::string::npos);
}

TEST(ModelFolder, NamesTheFileWhoseTokenizerIsBad) {
  const test::TempDir place;
  const std::string file = place.write("m.gguf", text_of(tokenizer_file("t5").finish()));
  ModelFolder folder(file);
  ASSERT_TRUE(tokenizer_source(folder).has_value()) << "it is not looked at";
  for (const auto& loaded : {load_tokenizer(folder), made_of_bytes(folder)}) {
    ASSERT_FALSE(loaded.has_value());
    EXPECT_EQ(loaded.error().code(), Code::kUnimplemented);
    EXPECT_EQ(loaded.error().message().find(file + ": tokenizer.ggml.model: "), 0U)
        << loaded.error().message();
  }
  place.write("m.gguf", "GGUF");
  const auto truncated = tokenizer_source(folder);
  ASSERT_FALSE(truncated.has_value());
  EXPECT_EQ(truncated.error().code(), Code::kDataLoss);
  EXPECT_EQ(truncated.error().message().find(file + ": "), 0U) << truncated.error().message();
}

}  // namespace
}  // namespace phalanx::checkpoint
