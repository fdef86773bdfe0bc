// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/choices.h"

#include "phalanx/base/check.h"

namespace phalanx::step {

namespace {

struct Choice {
  std::string_view text;
  KvFormat format;
};
constexpr std::array<Choice, 4> kChoices = {{{"bf16", KvFormat::kBf16},
                                             {"int8", KvFormat::kInt8},
                                             {"auto", KvFormat::kBf16},
                                             {"bfloat16", KvFormat::kBf16}}};

}  // namespace

std::vector<std::string> kv_format_choices() {
  std::vector<std::string> choices;
  for (const Choice& choice : kChoices) {
    choices.emplace_back(choice.text);
  }
  return choices;
}

KvFormat kv_format_of(std::string_view choice) {
  for (const Choice& known : kChoices) {
    if (known.text == choice) {
      return known.format;
    }
  }
  PHALANX_CHECK(false, "not one of kv_format_choices()");
  return KvFormat::kBf16;
}

std::string_view kv_format_name(KvFormat format) {
  return format == KvFormat::kInt8 ? "int8" : "bf16";
}

std::vector<std::string> quantization_choices() {
  std::vector<std::string> choices = {std::string(kAutoQuantization)};
  choices.insert(choices.end(), kQuantizations.begin(), kQuantizations.end());
  return choices;
}

}  // namespace phalanx::step
