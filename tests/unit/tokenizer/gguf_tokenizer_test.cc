// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bpe.h"
#include "real_goldens.h"

namespace phalanx::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kUnknown = 2;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;
constexpr std::int32_t kByte = 6;

// The parts of a vocabulary that is merged by score, to change and load: <unk>, <s>, </s>, the
// bytes, then tokens.
struct Scored {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{kUnknown, kControl, kControl};
  std::vector<float> scores{0, 0, 0};
  std::string model = "llama";
  std::function<void(test::GgufWriter&)> more = [](test::GgufWriter&) {};

  Scored() {
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
      add(text, 0, kByte);
    }
  }

  void add(const std::string& token, float score, std::int32_t type = kNormal) {
    tokens.push_back(token);
    scores.push_back(score);
    types.push_back(type);
  }

  [[nodiscard]] std::vector<std::byte> file() const {
    test::GgufWriter writer;
    writer.text("tokenizer.ggml.model", model)
        .texts("tokenizer.ggml.tokens", tokens)
        .integers("tokenizer.ggml.token_type", types)
        .floats("tokenizer.ggml.scores", scores)
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2);
    more(writer);
    return writer.finish();
  }
};

Result<std::unique_ptr<Tokenizer>> load(const std::vector<std::byte>& bytes) {
  PHALANX_TRY(const gguf::File file, gguf::File::parse(bytes));
  return load_tokenizer(file.metadata());
}

// SentencePiece's merging as its definition reads, over a text in which marks stand for spaces.
std::vector<std::string> merge_by_definition(const std::map<std::string, float>& scores,
                                             std::vector<std::string> symbols) {
  while (true) {
    std::size_t place = symbols.size();
    float best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = scores.find(symbols[i] + symbols[i + 1]);
      if (found != scores.end() && (place == symbols.size() || found->second > best)) {
        place = i;
        best = found->second;
      }
    }
    if (place == symbols.size()) {
      return symbols;
    }
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(GgufTokenizer, MergesByScoreAsTheDefinitionSays) {
  std::mt19937 random(9);
  const std::vector<std::string> letters{"a", "b", "c", "\u00e9", "\u2581"};
  for (int world = 0; world < 40; ++world) {
    Scored vocabulary;
    std::map<std::string, float> scores;
    std::map<std::string, TokenId> ids;
    const auto add = [&](const std::string& token, float score) {
      if (scores.emplace(token, score).second) {
        ids[token] = static_cast<TokenId>(vocabulary.tokens.size());
        vocabulary.add(token, score);
      }
    };
    for (const std::string& letter : letters) {
      add(letter, -1000);
    }
    std::vector<std::string> known = letters;
    for (std::size_t i = 0; i < 3 + random() % 40; ++i) {
      const std::string token = known[random() % known.size()] + known[random() % known.size()];
      known.push_back(token);
      // Few different scores, so that ties are decided by place.
      add(token, -static_cast<float>(random() % 10));
    }
    vocabulary.more = [](test::GgufWriter& writer) {
      writer.boolean("tokenizer.ggml.add_space_prefix", 0);
    };
    const auto tokenizer = load(vocabulary.file());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
    for (int i = 0; i < 20; ++i) {
      std::string text;
      std::vector<std::string> symbols;
      for (std::size_t k = 0; k < 1 + random() % (i % 4 == 0 ? 400 : 40); ++k) {
        symbols.push_back(letters[random() % letters.size()]);
        text += symbols.back() == "\u2581" ? " " : symbols.back();
      }
      std::vector<TokenId> expected;
      for (const std::string& token : merge_by_definition(scores, symbols)) {
        expected.push_back(ids.at(token));
      }
      EXPECT_EQ(*(*tokenizer)->encode(text), expected) << text;
      EXPECT_EQ((*tokenizer)->decode(expected), text);
    }
  }
}

TEST(GgufTokenizer, ReadsAScoredVocabulary) {
  Scored vocabulary;
  for (const char* letter : {"\u2581", "a", "b"}) {
    vocabulary.add(letter, -10);
  }
  vocabulary.add("\u2581a", -1);
  vocabulary.add("<tool>", 0, kUserDefined);
  vocabulary.more = [](test::GgufWriter& writer) {
    writer.text("tokenizer.chat_template", "{{ bos_token }}");
  };
  const auto loaded = load(vocabulary.file());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().to_string();
  const Tokenizer& tokenizer = **loaded;
  const TokenId mark = 259;
  EXPECT_THAT(*tokenizer.encode("a b"), ElementsAre(mark + 3, mark, mark + 2));
  // Each part between added tokens begins with a space of its own.
  EXPECT_THAT(*tokenizer.encode("<tool>a</s>a", {.parse_special = true}),
              ElementsAre(mark + 4, mark + 3, 2, mark + 3));
  EXPECT_THAT(*tokenizer.encode("a", {.add_special_tokens = true}), ElementsAre(1, mark + 3));
  // A character without a token: its bytes, from id 3 on.
  EXPECT_THAT(*tokenizer.encode("\u20ac"), ElementsAre(mark, 3 + 0xE2, 3 + 0x82, 3 + 0xAC));
  EXPECT_THAT(*tokenizer.encode("<0x41>"), testing::Not(testing::Contains(3 + 0x41)));
  const std::vector<TokenId> ids{mark + 3, mark, mark + 2, 3 + 0xE2, 3 + 0x82, 3 + 0xAC};
  EXPECT_EQ(tokenizer.decode(ids), "a b\u20ac");
  EXPECT_EQ(tokenizer.decode(ids, {.continues = true}), " a b\u20ac");
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.chat_template(), "{{ bos_token }}");
}

// As writers say that there is none.
TEST(GgufTokenizer, TakesRolesOfNoTokenForAbsentOnes) {
  Scored scored;
  scored.add("a", 0);
  scored.more = [](test::GgufWriter& writer) {
    const std::int32_t none = -1;
    writer.u32("tokenizer.ggml.padding_token_id", 0xFFFFFFFFU)
        .raw("tokenizer.ggml.unknown_token_id", 5, std::as_bytes(std::span(&none, 1)));
  };
  const auto tokenizer = load(scored.file());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  EXPECT_EQ((*tokenizer)->bos_id(), 1);
}

TEST(GgufTokenizer, AddsWhatTheFileSaysOrItsPreTokenizerImplies) {
  const auto with = [](std::string_view pre, const std::function<void(test::GgufWriter&)>& more) {
    test::GgufWriter writer;
    writer.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", {"a", "<s>", "</s>"})
        .integers("tokenizer.ggml.token_type", {kNormal, kControl, kControl})
        .texts("tokenizer.ggml.merges", {})
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2);
    more(writer);
    const auto tokenizer = load(writer.finish());
    EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
    return *(*tokenizer)->encode("a", {.add_special_tokens = true});
  };
  const auto nothing = [](test::GgufWriter&) {};
  EXPECT_THAT(with("qwen2", nothing), ElementsAre(0));
  EXPECT_THAT(with("llama-bpe", nothing), ElementsAre(1, 0));
  EXPECT_THAT(
      with("llama-bpe", [](test::GgufWriter& w) { w.boolean("tokenizer.ggml.add_bos_token", 0); }),
      ElementsAre(0));
  EXPECT_THAT(
      with(
          "gpt-2",
          [](test::GgufWriter& w) {
            w.boolean("tokenizer.ggml.add_bos_token", 1).boolean("tokenizer.ggml.add_eos_token", 1);
          }),
      ElementsAre(1, 0, 2));
}

// The sequence of expressions for files that name none.
TEST(GgufTokenizer, SplitsByDefaultAtPunctuationAndThreeDigits) {
  const auto pieces = [](std::string_view text) {
    test::GgufWriter writer;
    std::vector<std::string> tokens{"1", "2", ".", "a", "\u0120"};
    std::vector<std::string> merges;
    for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
             {"1", "2"}, {"12", "1"}, {"121", "2"}, {".", "1"}, {"a", "."}, {"\u0120", "1"}}) {
      tokens.push_back(left + right);
      merges.push_back(left + " " + right);
    }
    writer.text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", tokens)
        .texts("tokenizer.ggml.merges", merges);
    const auto tokenizer = load(writer.finish());
    EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
    std::vector<std::string> texts;
    const std::vector<TokenId> ids = *(*tokenizer)->encode(text);
    for (const TokenId id : ids) {
      texts.push_back((*tokenizer)->token_text(id));
    }
    return texts;
  };
  EXPECT_THAT(pieces("1212a.1"), ElementsAre("121", "2", "a", ".", "1"));
  EXPECT_THAT(pieces(" 12"), ElementsAre(" ", "12"));
}

struct BadFile {
  const char* name;
  std::function<void(Scored&)> change;
  Code code;
  std::vector<const char*> message;
};

void write_bpe(Scored& s, std::vector<std::string> merges) {
  s.model = "gpt2";
  for (const char* token : {"a", "b", "ab"}) {
    s.add(token, 0);
  }
  s.more = [merges = std::move(merges)](test::GgufWriter& writer) {
    writer.text("tokenizer.ggml.pre", "qwen2").texts("tokenizer.ggml.merges", merges);
  };
}

TEST(GgufTokenizer, RefusesBadVocabulariesNamingTheFault) {
  const std::vector<BadFile> files{
      {"model",
       [](Scored& s) { s.model = "t5"; },
       Code::kUnimplemented,
       {"tokenizer.ggml.model", "t5", "gpt2, llama"}},
      {"pre-tokenizer",
       [](Scored& s) {
         write_bpe(s, {});
         s.more = [](test::GgufWriter& writer) {
           writer.text("tokenizer.ggml.pre", "novelty").texts("tokenizer.ggml.merges", {});
         };
       },
       Code::kUnimplemented,
       {"novelty", "default", "gpt-2", "smollm", "qwen2", "llama-bpe"}},
      {"no merges",
       [](Scored& s) { s.model = "gpt2"; },
       Code::kNotFound,
       {"tokenizer.ggml.merges"}},
      {"unknown side",
       [](Scored& s) {
         write_bpe(s, {"a b", "a z"});
       },
       Code::kInvalidArgument,
       {"tokenizer.ggml.merges", "number 1", "\"z\""}},
      {"unknown result",
       [](Scored& s) { write_bpe(s, {"b a"}); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.merges", "\"b\"", "\"a\""}},
      {"merge of three",
       [](Scored& s) { write_bpe(s, {"a b c"}); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.merges", "a b c"}},
      {"merge that is not UTF-8",
       [](Scored& s) { write_bpe(s, {"a \xFF"}); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.merges", "UTF-8"}},
      {"no tokens",
       [](Scored& s) {
         s.tokens.clear();
         s.types.clear();
         s.scores.clear();
       },
       Code::kInvalidArgument,
       {"tokenizer.ggml.tokens", "found 0"}},
      {"token that is not UTF-8",
       [](Scored& s) { s.add("a\xC3", 0); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.tokens", "UTF-8"}},
      {"empty token",
       [](Scored& s) { s.add("", 0); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.tokens"}},
      {"token twice",
       [](Scored& s) {
         s.add("a", 0);
         s.add("a", -1);
       },
       Code::kInvalidArgument,
       {"\"a\"", "twice"}},
      {"byte twice",
       [](Scored& s) { s.add("<0x41>", 0, kByte); },
       Code::kInvalidArgument,
       {"0x41"}},
      {"missing byte",
       [](Scored& s) { s.tokens[3 + 0x41] = "x"; },
       Code::kInvalidArgument,
       {"byte 65"}},
      {"types of another length",
       [](Scored& s) { s.types.pop_back(); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.token_type", "259", "258"}},
      {"scores of another length",
       [](Scored& s) { s.scores.push_back(0); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.scores", "259", "260"}},
      {"score that is no number",
       [](Scored& s) { s.add("a", std::numeric_limits<float>::quiet_NaN()); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.scores"}},
      {"type",
       [](Scored& s) { s.add("a", 0, 7); },
       Code::kInvalidArgument,
       {"tokenizer.ggml.token_type", "7"}},
      {"long token to merge",
       [](Scored& s) { s.add(std::string(100'000, 'a'), 0); },
       Code::kInvalidArgument,
       {"100000"}},
      {"role outside the vocabulary",
       [](Scored& s) {
         s.more = [](test::GgufWriter& writer) {
           writer.u32("tokenizer.ggml.padding_token_id", 1'000'000);
         };
       },
       Code::kInvalidArgument,
       {"tokenizer.ggml.padding_token_id", "1000000"}},
      {"character map",
       [](Scored& s) {
         s.more = [](test::GgufWriter& writer) {
           writer.integers("tokenizer.ggml.precompiled_charsmap", {1, 2});
         };
       },
       Code::kUnimplemented,
       {"precompiled_charsmap"}},
  };
  for (const BadFile& bad : files) {
    SCOPED_TRACE(bad.name);
    Scored vocabulary;
    bad.change(vocabulary);
    const auto tokenizer = load(vocabulary.file());
    ASSERT_FALSE(tokenizer.has_value());
    EXPECT_EQ(tokenizer.error().code(), bad.code) << tokenizer.error().to_string();
    for (const char* part : bad.message) {
      EXPECT_THAT(tokenizer.error().message(), HasSubstr(part));
    }
  }
}

// A merge for every cut of every token: many more than tokens.
TEST(GgufTokenizer, BoundsTheMergesOfAScoredVocabulary) {
  constexpr std::size_t kLongest = 512;
  Scored vocabulary;
  for (std::size_t i = 0; i < Bpe::kMaxRank / (kLongest * (kLongest - 1) / 2) + 1; ++i) {
    for (std::size_t length = 1; length <= kLongest; ++length) {
      vocabulary.add(std::string(length, static_cast<char>('A' + i)), 0);
    }
  }
  const auto loaded = load(vocabulary.file());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(loaded.error().message(), HasSubstr("expected at most 4194304 merges"));
}

TEST(GgufTokenizer, BoundsTheTextOfControlTokens) {
  Scored one;
  one.add(std::string(4097, 'x'), 0, kControl);
  const auto long_one = load(one.file());
  ASSERT_FALSE(long_one.has_value());
  EXPECT_THAT(long_one.error().message(), HasSubstr("id 259: expected an added token of at most"));
  Scored many;
  for (int i = 0; i < 1025; ++i) {
    many.add(std::to_string(1000 + i) + std::string(4092, 'x'), 0, kUserDefined);
  }
  const auto long_all = load(many.file());
  ASSERT_FALSE(long_all.has_value());
  EXPECT_THAT(long_all.error().message(), HasSubstr("at most 4194304 bytes together"));
}

TEST(GgufTokenizer, RefusesAFileWithoutAVocabulary) {
  const auto tokenizer = load(test::GgufWriter().text("general.name", "x").finish());
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code(), Code::kNotFound);
}

// A control token in the midst of the text is never made by text of a client.
TEST(GgufTokenizer, MakesNoSpecialTokenOfUserText) {
  Scored vocabulary;
  for (const char* token : {"<", "/", "s", ">", "</", "s>"}) {
    vocabulary.add(token, -1);
  }
  const auto tokenizer = load(vocabulary.file());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const std::vector<TokenId> ids = *(*tokenizer)->encode("</s><unk><s>");
  EXPECT_GE(ids.size(), 3U);
  for (const TokenId id : ids) {
    EXPECT_FALSE((*tokenizer)->is_special(id)) << id;
  }
}

}  // namespace
}  // namespace phalanx::tokenizer
