// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/result.h"

#include "archive.h"

namespace phalanx::wire {

// The fourth archive: asks of a message what a Reader would ask of its bytes, before there are any.
// Remembers the first field that would be refused.
class Checker {
 public:
  template <typename Message>
  [[nodiscard]] static Status check(std::string_view name, const Message& message) {
    Checker checker;
    checker.structure(name, message);
    return checker.error_ ? Status(*std::move(checker.error_)) : ok();
  }

  template <std::integral Number>
  void number(std::string_view name,
              Number value,
              std::type_identity_t<Number> low = std::numeric_limits<Number>::min(),
              std::type_identity_t<Number> high = std::numeric_limits<Number>::max()) {
    if (value < low || value > high) {
      refuse(name, range("an integer", low, high), std::to_string(value));
    }
  }
  template <typename Tag, typename Rep>
  void id(std::string_view /*name*/, const Id<Tag, Rep>& /*value*/) {}
  void boolean(std::string_view /*name*/, bool /*value*/) {}
  template <typename Choice>
  void choice(std::string_view name, Choice value, Choice first, Choice last) {
    number(name,
           static_cast<std::uint64_t>(value),
           static_cast<std::uint64_t>(first),
           static_cast<std::uint64_t>(last));
  }
  void real(std::string_view name, float value, float low, float high) {
    if (!(value >= low && value <= high)) {  // false for NaN
      refuse(name, range("a float", low, high), std::to_string(value));
    }
  }
  void optional_real(std::string_view name, const std::optional<float>& value) {
    if (value && *value != *value) {
      refuse(name, "nil or a float", "nan");
    }
  }
  void text(std::string_view name, const std::string& value, std::size_t most) {
    bound(name, value.size(), most, "bytes");
  }
  template <typename Word>
  void words(std::string_view name, const std::vector<Word>& values, std::size_t most) {
    bound(name, values.size(), most, "words");
    if constexpr (std::is_signed_v<Word>) {
      require(std::all_of(values.begin(), values.end(), [](Word word) { return word >= 0; }),
              name,
              "token ids of at least 0");
    }
  }
  template <typename Word>
  void word_lists(std::string_view name,
                  const std::vector<std::vector<Word>>& lists,
                  std::size_t most_lists,
                  std::size_t most) {
    bound(name, lists.size(), most_lists, "lists");
    for (const std::vector<Word>& list : lists) {
      words(name, list, most);
    }
  }
  template <typename IdValue>
  void id_values(std::string_view name, const std::vector<IdValue>& values, std::size_t most) {
    bound(name, values.size(), most, "pairs");
    for (const auto& [token, value] : values) {
      require(token >= 0 && value == value, name, "token ids of at least 0 with numbers");
    }
  }
  template <typename Message>
  void structure(std::string_view name, const Message& message) {
    if (!error_) {
      path_.push_back(name);
      fields(*this, message);
      path_.pop_back();
    }
  }
  template <typename Message>
  void list(std::string_view name, const std::vector<Message>& messages, std::size_t most) {
    bound(name, messages.size(), most, "elements");
    for (const Message& message : messages) {
      structure(name, message);
    }
  }
  template <typename... Messages>
  void variant(std::string_view name, const std::variant<Messages...>& value) {
    std::visit([&](const auto& message) { structure(name, message); }, value);
  }
  void require(bool holds, std::string_view name, std::string_view what) {
    if (!holds) {
      refuse(name, std::string(what), "something else");
    }
  }

 private:
  template <typename Number>
  static std::string range(std::string_view what, Number low, Number high) {
    return std::string(what) + " from " + std::to_string(low) + " to " + std::to_string(high);
  }
  void bound(std::string_view name, std::size_t size, std::size_t most, std::string_view unit) {
    if (size > most) {
      refuse(
          name, "at most " + std::to_string(most) + " " + std::string(unit), std::to_string(size));
    }
  }
  void refuse(std::string_view name, const std::string& expected, const std::string& came) {
    if (error_) {
      return;
    }
    std::string path;
    for (const std::string_view level : path_) {
      path += std::string(level) + ".";
    }
    error_ =
        invalid_argument(path + std::string(name) + ": expected " + expected + ", came " + came);
  }

  std::vector<std::string_view> path_;
  std::optional<Error> error_;
};

}  // namespace phalanx::wire
