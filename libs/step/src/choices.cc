// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/choices.h"

#include "phalanx/base/check.h"

namespace phalanx::step {

namespace {

template <typename Value>
struct Choice {
  std::string_view text;
  Value value;
};
constexpr std::array<Choice<KvFormat>, 4> kKvFormats = {{{"bf16", KvFormat::kBf16},
                                                         {"int8", KvFormat::kInt8},
                                                         {"auto", KvFormat::kBf16},
                                                         {"bfloat16", KvFormat::kBf16}}};
constexpr std::array<Choice<Runner>, 2> kRunners = {{{"cpu", Runner::kCpu}, {"sim", Runner::kSim}}};

template <typename Table>
std::vector<std::string> texts_of(const Table& table) {
  std::vector<std::string> texts;
  texts.reserve(table.size());
  for (const auto& choice : table) {
    texts.emplace_back(choice.text);
  }
  return texts;
}

template <typename Value, std::size_t Count>
Value value_of(const std::array<Choice<Value>, Count>& table, std::string_view text) {
  for (const Choice<Value>& choice : table) {
    if (choice.text == text) {
      return choice.value;
    }
  }
  PHALANX_CHECK(false, "not one of the choices");
  return table.front().value;
}

}  // namespace

std::vector<std::string> kv_format_choices() {
  return texts_of(kKvFormats);
}

KvFormat kv_format_of(std::string_view choice) {
  return value_of(kKvFormats, choice);
}

std::string_view kv_format_name(KvFormat format) {
  return format == KvFormat::kInt8 ? "int8" : "bf16";
}

std::vector<std::string> runner_choices() {
  return texts_of(kRunners);
}

Runner runner_of(std::string_view choice) {
  return value_of(kRunners, choice);
}

std::vector<std::string> quantization_choices() {
  std::vector<std::string> choices = {std::string(kAutoQuantization)};
  choices.insert(choices.end(), kQuantizations.begin(), kQuantizations.end());
  return choices;
}

}  // namespace phalanx::step
