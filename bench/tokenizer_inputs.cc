// SPDX-License-Identifier: Apache-2.0
#include "tokenizer_inputs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string_view>
#include <utility>

namespace phalanx::bench {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t end) {
  return random() % end;
}

std::string utf8(char32_t c) {
  std::string out;
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out = {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    out = {static_cast<char>(0xE0 | (c >> 12)),
           static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
           static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    out = {static_cast<char>(0xF0 | (c >> 18)),
           static_cast<char>(0x80 | ((c >> 12) & 0x3F)),
           static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
           static_cast<char>(0x80 | (c & 0x3F))};
  }
  return out;
}

// One unit of a piece.
using Source = std::function<std::string(Random&)>;

Source range(char32_t first, char32_t last) {
  return [=](Random& random) {
    return utf8(first + static_cast<char32_t>(below(random, last - first + 1)));
  };
}

Source one_of(std::string letters) {
  return [letters = std::move(letters)](Random& random) {
    return std::string(1, letters[below(random, letters.size())]);
  };
}

Source always(std::string unit) {
  return [unit = std::move(unit)](Random&) { return unit; };
}

// Two marks of different combining classes in the wrong order behind a letter: the longest way
// through normalisation.
std::string letter_with_marks(Random& random) {
  return utf8('a' + static_cast<char32_t>(below(random, 26))) + "\xCC\x81\xCC\xA3";
}

using Accepts = std::function<bool(std::string_view)>;

// Random tokens of the vocabulary, `cut` bytes short, which leads merging astray.
Source tokens(const tokenizer::Tokenizer& tokenizer, const Accepts& accepts, std::size_t cut) {
  std::vector<std::string> kept;
  for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const std::string_view bytes = tokenizer.token_bytes(token);
    if (!tokenizer.is_special(token) && bytes.size() > cut + 1 && accepts(bytes)) {
      kept.emplace_back(bytes.substr(0, bytes.size() - cut));
    }
  }
  if (kept.empty()) {
    kept.emplace_back("x");
  }
  return [kept = std::move(kept)](Random& random) { return kept[below(random, kept.size())]; };
}

bool is_letters(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

bool is_spaced_word(std::string_view text) {
  return text.starts_with(' ') && is_letters(text.substr(1));
}

bool is_punctuation(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && !is_letters(std::string_view(&c, 1)) && (c < '0' || c > '9');
  });
}

bool is_beyond_ascii(std::string_view text) {
  return std::all_of(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

std::vector<std::pair<std::string, Source>> sources(const tokenizer::Tokenizer& tokenizer) {
  std::string special;
  for (std::size_t id = 0; id < tokenizer.vocab_size() && special.empty(); ++id) {
    if (tokenizer.is_special(static_cast<TokenId>(id))) {
      special = tokenizer.token_text(static_cast<TokenId>(id));
    }
  }
  special.resize(std::max<std::size_t>(special.size(), 2) - 1, '<');
  return {
      {"letters", range('a', 'z')},
      {"capitals", range('A', 'Z')},
      {"mixed case", one_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")},
      {"frequent letters", one_of("etaoinsrhl")},
      {"two letters", one_of("ab")},
      {"one letter", always("a")},
      {"digits", range('0', '9')},
      {"punctuation", one_of("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")},
      {"equals signs", always("=")},
      {"spaces", always(" ")},
      {"line ends", one_of("\n\r")},
      {"white space", one_of(" \t\n")},
      {"letter, space", one_of("ab ")},
      {"apostrophes", one_of("'sStTlLrReEvV")},
      {"ASCII", range(' ', '~')},
      {"controls", range(1, 31)},
      {"Latin-1", range(0xC0, 0xFF)},
      {"Latin extended", range(0x100, 0x24F)},
      {"Greek, Cyrillic", range(0x370, 0x52F)},
      {"Hebrew, Arabic", range(0x5D0, 0x6FF)},
      {"Devanagari", range(0x904, 0x963)},
      {"Thai", range(0xE01, 0xE4E)},
      {"Hangul", range(0xAC00, 0xD7A3)},
      {"Jamo", range(0x1100, 0x11FF)},
      {"kana", range(0x3041, 0x30FE)},
      {"frequent Han", range(0x4E00, 0x4EFF)},
      {"Han", range(0x4E00, 0x9FFF)},
      {"Han extension", range(0x20000, 0x2A6DF)},
      {"emoji", range(0x1F300, 0x1F64F)},
      {"mathematical letters", range(0x1D400, 0x1D6A3)},
      {"private use", range(0xE000, 0xF8FF)},
      {"any character",
       [](Random& random) { return utf8(static_cast<char32_t>(1 + below(random, 0xD7FF))); }},
      {"marks", range(0x300, 0x34E)},
      {"letters with marks", letter_with_marks},
      {"broken bytes",
       [](Random& random) { return std::string(1, static_cast<char>(random() | 0x80U)); }},
      {"unfinished special token", always(special)},
      {"tokens of letters", tokens(tokenizer, is_letters, 0)},
      {"cut tokens of letters", tokens(tokenizer, is_letters, 1)},
      {"spaced words", tokens(tokenizer, is_spaced_word, 0)},
      {"cut spaced words", tokens(tokenizer, is_spaced_word, 1)},
      {"tokens of punctuation", tokens(tokenizer, is_punctuation, 0)},
      {"tokens beyond ASCII", tokens(tokenizer, is_beyond_ascii, 0)},
      {"any tokens",
       tokens(
           tokenizer, [](std::string_view) { return true; }, 0)},
  };
}

}  // namespace

TokenizerInput english_text(std::size_t bytes) {
  static constexpr std::string_view kWords[] = {
      "the",         "of",         "and",         "to",         "a",          "in",
      "is",          "that",       "it",          "was",        "for",        "on",
      "with",        "as",         "be",          "he",         "at",         "by",
      "this",        "had",        "not",         "are",        "but",        "from",
      "or",          "have",       "an",          "they",       "which",      "one",
      "you",         "were",       "her",         "all",        "she",        "there",
      "would",       "their",      "we",          "him",        "been",       "has",
      "when",        "who",        "will",        "more",       "no",         "if",
      "out",         "so",         "said",        "what",       "up",         "its",
      "about",       "into",       "than",        "them",       "can",        "only",
      "other",       "new",        "some",        "could",      "time",       "these",
      "two",         "may",        "then",        "do",         "first",      "any",
      "my",          "now",        "such",        "like",       "our",        "over",
      "man",         "me",         "even",        "most",       "made",       "after",
      "also",        "did",        "many",        "before",     "must",       "through",
      "years",       "where",      "much",        "your",       "way",        "well",
      "down",        "should",     "because",     "each",       "just",       "those",
      "people",      "mister",     "how",         "too",        "little",     "state",
      "good",        "very",       "make",        "world",      "still",      "own",
      "see",         "men",        "work",        "long",       "get",        "here",
      "between",     "both",       "life",        "being",      "under",      "never",
      "day",         "same",       "another",     "know",       "while",      "last",
      "might",       "us",         "great",       "old",        "year",       "off",
      "come",        "since",      "against",     "go",         "came",       "right",
      "used",        "take",       "three",       "himself",    "few",        "house",
      "use",         "during",     "without",     "again",      "place",      "American",
      "around",      "however",    "home",        "small",      "found",      "thought",
      "went",        "say",        "part",        "once",       "general",    "high",
      "upon",        "school",     "every",       "does",       "got",        "united",
      "left",        "number",     "course",      "war",        "until",      "always",
      "away",        "something",  "fact",        "water",      "though",     "less",
      "public",      "put",        "think",       "almost",     "hand",       "enough",
      "took",        "head",       "yet",         "system",     "set",        "better",
      "nothing",     "night",      "told",        "government", "moment",     "information",
      "development", "experience", "possible",    "particular", "understand", "language",
      "university",  "computer",   "environment", "question"};
  Random random(1);
  std::vector<double> weights;
  for (std::size_t i = 0; i < std::size(kWords); ++i) {
    weights.push_back(1.0 / static_cast<double>(i + 1));
  }
  std::discrete_distribution<std::size_t> word(weights.begin(), weights.end());
  std::string text;
  bool first = true;
  while (text.size() < bytes) {
    std::string next(kWords[word(random)]);
    if (below(random, 40) == 0) {
      next = std::to_string(below(random, 2000));
    }
    if (first) {
      next[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(next[0])));
    }
    text += next;
    first = false;
    switch (below(random, 24)) {
      case 0:
        text += ". ";
        first = true;
        break;
      case 1:
        text += ", ";
        break;
      case 2:
        text += below(random, 4) == 0 ? ".\n\n" : "'s ";
        first = text.ends_with('\n');
        break;
      default:
        text += ' ';
    }
  }
  return {"English", text};
}

std::vector<TokenizerInput> hostile_texts(const tokenizer::Tokenizer& tokenizer,
                                          std::size_t bytes) {
  // Units in a piece; 0: one piece.
  constexpr std::size_t kUnits[] = {1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 400, 0};
  std::vector<TokenizerInput> texts;
  Random random(2);
  for (const auto& [name, source] : sources(tokenizer)) {
    for (const std::size_t units : kUnits) {
      std::string text;
      for (std::size_t count = 1; text.size() < bytes; ++count) {
        text += source(random);
        if (units > 0 && count % units == 0) {
          text += ' ';
        }
      }
      texts.push_back(
          {name + (units == 0 ? ", one piece" : ", pieces of " + std::to_string(units)), text});
    }
  }
  return texts;
}

}  // namespace phalanx::bench
