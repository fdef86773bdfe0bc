// SPDX-License-Identifier: Apache-2.0
#include "regular_expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <pcre2.h>

namespace phalanx::tokenizer {
namespace {

// A match that needs more steps than this, beyond what the length of the text explains, runs on a
// pattern that backtracks without end.
constexpr std::uint32_t kMatchLimit = 2'000'000;
constexpr std::uint32_t kMatchStepsPerByte = 8;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;

constexpr unsigned kMatchesPerLook = 8;  // at the clock

MatchTime*& match_time() {
  thread_local MatchTime* time = nullptr;
  return time;
}

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// What a thread needs to match: one per thread, for patterns of any tokenizer.
struct MatchScratch {
  std::unique_ptr<pcre2_match_data, FreeMatchData> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context{
      pcre2_match_context_create(nullptr)};
};

MatchScratch& match_scratch() {
  thread_local MatchScratch scratch;
  return scratch;
}

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  const int length = pcre2_get_error_message(code, buffer.data(), buffer.size());
  std::string text;
  for (int i = 0; i < length; ++i) {
    text.push_back(static_cast<char>(buffer[static_cast<std::size_t>(i)]));
  }
  return text;
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

MatchTime::MatchTime(Duration limit) : time_(limit), outer_(std::exchange(match_time(), this)) {}

MatchTime::~MatchTime() {
  match_time() = outer_;
}

Status MatchTime::count() {
  if (++matches_ % kMatchesPerLook != 0 || !time_.passed()) {
    return ok();
  }
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(time_.limit());
  return resource_exhausted("the pre-tokenizer's pattern takes more than " +
                            std::to_string(limit.count()) +
                            " ms of CPU time for this text; send a shorter or plainer one");
}

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<Regex> Regex::build(std::string_view pattern, unsigned options, Engine engine) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_argument("pattern: expected at most " + std::to_string(kMaxPatternBytes) +
                            " bytes, found " + std::to_string(pattern.size()));
  }
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  Regex regex;
  regex.code_.reset(pcre2_compile(
      units(pattern), pattern.size(), options | PCRE2_UTF, &error, &error_offset, nullptr));
  if (regex.code_ == nullptr) {
    return invalid_argument("pattern \"" + std::string(pattern) + "\": " + error_text(error) +
                            " at offset " + std::to_string(error_offset));
  }
  std::uint32_t may_match_nothing = 0;
  pcre2_pattern_info(regex.code_.get(), PCRE2_INFO_MATCHEMPTY, &may_match_nothing);
  if (may_match_nothing != 0) {
    return invalid_argument("pattern \"" + std::string(pattern) +
                            "\": expected one that matches at least a character");
  }
  if (engine == Engine::kFastest) {
    // Without executable memory this fails and pcre2_match interprets.
    static_cast<void>(pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE));
  }
  return regex;
}

Result<Regex> Regex::compile(std::string_view pattern, Engine engine) {
  PHALANX_TRY(const std::string translated, translate_pattern(pattern));
  // In Ruby's syntax ^ and $ match at every line.
  return build(translated, PCRE2_MULTILINE | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, engine);
}

Result<Regex> Regex::literal(std::string_view text) {
  if (text.empty()) {
    return invalid_argument("pattern: expected at least one character, found none");
  }
  return build(text, PCRE2_LITERAL, Engine::kFastest);
}

Result<std::optional<ByteRange>> Regex::find(std::string_view subject, std::size_t start) const {
  if (match_time() != nullptr) {
    PHALANX_RETURN_IF_ERROR(match_time()->count());
  }
  MatchScratch& scratch = match_scratch();
  const auto steps = static_cast<std::uint64_t>(subject.size()) * kMatchStepsPerByte + kMatchLimit;
  pcre2_set_match_limit(scratch.context.get(),
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, UINT32_MAX)));
  pcre2_set_heap_limit(scratch.context.get(), kHeapLimitKib);
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code_.get(),
                       units(subject),
                       subject.size(),
                       start,
                       options | PCRE2_NO_UTF_CHECK,
                       scratch.data.get(),
                       scratch.context.get());
  };
  int rc = match(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
    rc = match(PCRE2_NO_JIT);
  }
  if (rc == PCRE2_ERROR_NOMATCH) {
    return std::optional<ByteRange>();
  }
  if (rc < 0) {
    return resource_exhausted("pre-tokenizer pattern gave up at byte " + std::to_string(start) +
                              " of a text of " + std::to_string(subject.size()) +
                              " bytes: " + error_text(rc));
  }
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(scratch.data.get());
  // A look-behind with \K could end before it begins; translate_pattern refuses \K.
  return std::optional<ByteRange>(ByteRange{ends[0], ends[1]});
}

}  // namespace phalanx::tokenizer
