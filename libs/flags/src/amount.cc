// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "phalanx/base/split_list.h"
#include "phalanx/flags/flag_table.h"

namespace phalanx::flags {

namespace {

struct Multiplier {
  std::string_view text;
  std::int64_t value;
};
constexpr Multiplier kMultipliers[] = {
    {"", 1},
    {"k", 1'000},
    {"m", 1'000'000},
    {"g", 1'000'000'000},
    {"K", std::int64_t{1} << 10},
    {"M", std::int64_t{1} << 20},
    {"G", std::int64_t{1} << 30},
    {"Ki", std::int64_t{1} << 10},
    {"Mi", std::int64_t{1} << 20},
    {"Gi", std::int64_t{1} << 30},
};

// "4096", "4k", "2G" or "2Gi" as a number; nothing if it is none, or none of 64 bits.
std::optional<std::int64_t> parse_amount(std::string_view text) {
  std::int64_t number = 0;
  const char* const end_of_text = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), end_of_text, number);
  if (error != std::errc{} || number < 0) {
    return std::nullopt;
  }
  const std::string_view behind(end, static_cast<std::size_t>(end_of_text - end));
  for (const Multiplier& multiplier : kMultipliers) {
    if (multiplier.text == behind &&
        number <= std::numeric_limits<std::int64_t>::max() / multiplier.value) {
      return number * multiplier.value;
    }
  }
  return std::nullopt;
}

}  // namespace

void FlagTable::add_amount(std::string_view names,
                           std::int64_t* target,
                           std::int64_t min,
                           std::int64_t max,
                           Unit unit,
                           std::string help) {
  const bool is_bytes = unit == Unit::kBytes;
  Flag flag;
  flag.names = split_list(std::string(names));
  flag.value_name = is_bytes ? "BYTES" : "TOKENS";
  flag.help = std::move(help);
  flag.default_text = std::to_string(*target);
  flag.is_amount = true;
  flag.set = [target, min, max, is_bytes](const std::string& text) -> Status {
    const std::optional<std::int64_t> value = parse_amount(text);
    if (!value || *value < min || *value > max) {
      return invalid_argument(std::string("expected a whole number of ") +
                              (is_bytes ? "bytes" : "tokens") + " from " + std::to_string(min) +
                              " to " + std::to_string(max) +
                              ", as 4000, 4k (4000), 4K or 4Ki (4096), or with m, g, M, G, Mi or "
                              "Gi, found \"" +
                              text + "\"");
    }
    *target = *value;
    return ok();
  };
  add(std::move(flag));
}

}  // namespace phalanx::flags
