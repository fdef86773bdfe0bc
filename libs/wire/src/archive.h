// SPDX-License-Identifier: Apache-2.0
// Each message is described once, by a function
//
//   template <typename Archive, Like<Submit> Message>
//   void fields(Archive& archive, Message& message);
//
// that names its fields, in order, with their bounds. Three archives walk it: FieldCounter counts
// the fields, Writer encodes them, Reader decodes and checks them. So the two directions cannot
// drift apart. A fourth, Checker, is in checker.h.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/limits.h"

#include "packer.h"
#include "reader.h"

namespace phalanx::wire {

static_assert(std::endian::native == std::endian::little, "blobs are little-endian");

template <typename Message, typename Plain>
concept Like = std::same_as<std::remove_const_t<Message>, Plain>;

// The number of elements of the array that a message is sent as.
class FieldCounter {
 public:
  // Every field method takes a name and anything else.
#define PHALANX_COUNT_FIELD(method)        \
  template <typename... Arguments>         \
  void method(const Arguments&... /*_*/) { \
    ++count_;                              \
  }
  PHALANX_COUNT_FIELD(number)
  PHALANX_COUNT_FIELD(id)
  PHALANX_COUNT_FIELD(boolean)
  PHALANX_COUNT_FIELD(choice)
  PHALANX_COUNT_FIELD(real)
  PHALANX_COUNT_FIELD(optional_real)
  PHALANX_COUNT_FIELD(text)
  PHALANX_COUNT_FIELD(words)
  PHALANX_COUNT_FIELD(word_lists)
  PHALANX_COUNT_FIELD(id_values)
  PHALANX_COUNT_FIELD(structure)
  PHALANX_COUNT_FIELD(list)
  PHALANX_COUNT_FIELD(variant)
#undef PHALANX_COUNT_FIELD
  void require(bool /*holds*/, std::string_view /*name*/, std::string_view /*what*/) {}

  template <typename Message>
  [[nodiscard]] static std::size_t count(Message& message) {
    FieldCounter counter;
    fields(counter, message);
    return counter.count_;
  }

 private:
  std::size_t count_ = 0;
};

class Writer {
 public:
  template <typename Message>
  [[nodiscard]] static std::string encode(const Message& message) {
    Writer writer;
    writer.structure("", message);
    std::string bytes = writer.packer_.take();
    PHALANX_CHECK(bytes.size() <= kMaxFrameBytes, "a frame beyond kMaxFrameBytes");
    return bytes;
  }

  template <std::integral Number>
  void number(std::string_view /*name*/,
              Number value,
              std::type_identity_t<Number> /*low*/ = 0,
              std::type_identity_t<Number> /*high*/ = 0) {
    if (value < 0) {
      packer_.negative(static_cast<std::int64_t>(value));
    } else {
      packer_.number(static_cast<std::uint64_t>(value));
    }
  }
  template <typename Tag, typename Rep>
  void id(std::string_view /*name*/, const Id<Tag, Rep>& value) {
    packer_.number(value.value());
  }
  void boolean(std::string_view /*name*/, bool value) { packer_.boolean(value); }
  template <typename Choice>
  void choice(std::string_view /*name*/, Choice value, Choice /*first*/, Choice /*last*/) {
    packer_.number(static_cast<std::uint64_t>(value));
  }
  void real(std::string_view /*name*/, float value, float /*low*/, float /*high*/) {
    packer_.real(value);
  }
  void optional_real(std::string_view /*name*/, const std::optional<float>& value) {
    value ? packer_.real(*value) : packer_.nil();
  }
  void text(std::string_view /*name*/, const std::string& value, std::size_t /*most*/) {
    packer_.text(value);
  }
  template <typename Word>
  void words(std::string_view /*name*/, const std::vector<Word>& values, std::size_t /*most*/) {
    static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
    packer_.blob({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Word)});
  }
  template <typename Word>
  void word_lists(std::string_view name,
                  const std::vector<std::vector<Word>>& lists,
                  std::size_t /*most_lists*/,
                  std::size_t most) {
    packer_.array(lists.size());
    for (const std::vector<Word>& list : lists) {
      words(name, list, most);
    }
  }
  template <typename IdValue>
  void id_values(std::string_view /*name*/,
                 const std::vector<IdValue>& values,
                 std::size_t /*most*/) {
    std::string blob;
    blob.reserve(values.size() * 8);
    for (const auto& [token, value] : values) {
      blob.append(reinterpret_cast<const char*>(&token), 4);
      blob.append(reinterpret_cast<const char*>(&value), 4);
    }
    packer_.blob(blob);
  }
  template <typename Message>
  void structure(std::string_view /*name*/, const Message& message) {
    packer_.array(FieldCounter::count(message));
    fields(*this, message);
  }
  template <typename Message>
  void list(std::string_view name, const std::vector<Message>& messages, std::size_t /*most*/) {
    packer_.array(messages.size());
    for (const Message& message : messages) {
      structure(name, message);
    }
  }
  // [kind, body], where the kinds count from 1 in the order of the alternatives.
  template <typename... Messages>
  void variant(std::string_view name, const std::variant<Messages...>& value) {
    packer_.array(2);
    packer_.number(value.index() + 1);
    std::visit([&](const auto& message) { structure(name, message); }, value);
  }
  void require(bool /*holds*/, std::string_view /*name*/, std::string_view /*what*/) {}

 private:
  Packer packer_;
};

// A message whose only field is a variant; what is written or checked is borrowed.
template <typename Variant>
struct RecordFrame {
  Variant record;
};
template <typename Archive, typename Variant>
void fields(Archive& archive, RecordFrame<Variant>& message) {
  archive.variant("record", message.record);
}
template <typename Archive, typename Variant>
void fields(Archive& archive, const RecordFrame<Variant>& message) {
  archive.variant("record", message.record);
}

// Reads into a default-constructed message. After the first error nothing further is read.
class Reader {
 public:
  template <typename Message>
  [[nodiscard]] static Result<Message> decode(std::string_view name, std::string_view bytes) {
    Result<std::vector<TapeItem>> tape = read_tape(bytes);
    if (!tape) {
      return std::move(tape).error().with(name);
    }
    return decode<Message>(name, *tape);
  }
  template <typename Message>
  [[nodiscard]] static Result<Message> decode(std::string_view name,
                                              const std::vector<TapeItem>& tape) {
    Reader reader(name, tape);
    Result<Message> message = Message{};
    reader.structure("", *message);
    if (reader.cursor_.failed()) {
      return std::move(reader.cursor_).error();
    }
    return message;
  }

  template <std::integral Number>
  void number(std::string_view name,
              Number& value,
              std::type_identity_t<Number> low = std::numeric_limits<Number>::min(),
              std::type_identity_t<Number> high = std::numeric_limits<Number>::max()) {
    if constexpr (std::is_signed_v<Number>) {
      value = static_cast<Number>(cursor_.signed_number(name, low, high));
    } else {
      value = static_cast<Number>(cursor_.unsigned_number(name, low, high));
    }
  }
  template <typename Tag, typename Rep>
  void id(std::string_view name, Id<Tag, Rep>& value) {
    Rep rep{};
    number(name, rep);
    value = Id<Tag, Rep>(rep);
  }
  void boolean(std::string_view name, bool& value) { value = cursor_.boolean(name); }
  template <typename Choice>
  void choice(std::string_view name, Choice& value, Choice first, Choice last) {
    value = static_cast<Choice>(cursor_.unsigned_number(
        name, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)));
  }
  void real(std::string_view name, float& value, float low, float high) {
    value = cursor_.real(name, low, high);
  }
  void optional_real(std::string_view name, std::optional<float>& value) {
    value = cursor_.optional_real(name);
  }
  void text(std::string_view name, std::string& value, std::size_t most) {
    value = cursor_.text(name, most);
  }
  template <typename Word>
  void words(std::string_view name, std::vector<Word>& values, std::size_t most) {
    const std::string_view blob = cursor_.blob(name, sizeof(Word), most);
    values.resize(blob.size() / sizeof(Word));
    if (!values.empty()) {
      std::memcpy(values.data(), blob.data(), blob.size());
    }
    if constexpr (std::is_signed_v<Word>) {
      require(std::all_of(values.begin(), values.end(), [](Word word) { return word >= 0; }),
              name,
              "token ids of at least 0");
    }
  }
  template <typename Word>
  void word_lists(std::string_view name,
                  std::vector<std::vector<Word>>& lists,
                  std::size_t most_lists,
                  std::size_t most) {
    const auto scope = cursor_.enter(name);
    lists.resize(cursor_.array_up_to(most_lists));
    for (std::size_t i = 0; i < lists.size() && !cursor_.failed(); ++i) {
      cursor_.set_index(i);
      words("", lists[i], most);
    }
  }
  template <typename IdValue>
  void id_values(std::string_view name, std::vector<IdValue>& values, std::size_t most) {
    const std::string_view blob = cursor_.blob(name, 8, most);
    values.reserve(blob.size() / 8);
    for (std::size_t offset = 0; offset < blob.size(); offset += 8) {
      TokenId token = 0;
      float value = 0.0F;
      std::memcpy(&token, blob.data() + offset, 4);
      std::memcpy(&value, blob.data() + offset + 4, 4);
      require(token >= 0 && value == value, name, "token ids of at least 0 with numbers");
      values.push_back(IdValue{token, value});
    }
  }
  template <typename Message>
  void structure(std::string_view name, Message& message) {
    const auto scope = cursor_.enter(name);
    cursor_.array_of(FieldCounter::count(message));
    fields(*this, message);
  }
  template <typename Message>
  void list(std::string_view name, std::vector<Message>& messages, std::size_t most) {
    const auto scope = cursor_.enter(name);
    const std::size_t count = cursor_.array_up_to(most);
    messages.reserve(count);
    for (std::size_t i = 0; i < count && !cursor_.failed(); ++i) {
      cursor_.set_index(i);
      structure("", messages.emplace_back());
    }
  }
  template <typename... Messages>
  void variant(std::string_view name, std::variant<Messages...>& value) {
    const auto scope = cursor_.enter(name);
    cursor_.array_of(2);
    const std::uint64_t kind = cursor_.unsigned_number("kind", 1, sizeof...(Messages));
    read_alternative(kind, value, std::index_sequence_for<Messages...>{});
  }
  // Refuses the message unless the condition holds: "name: expected what".
  void require(bool holds, std::string_view name, std::string_view what) {
    if (!holds) {
      cursor_.refuse(name, what);
    }
  }

 private:
  Reader(std::string_view name, const std::vector<TapeItem>& tape) : cursor_(name, tape) {}

  template <typename... Messages, std::size_t... kIndex>
  void read_alternative(std::uint64_t kind,
                        std::variant<Messages...>& value,
                        std::index_sequence<kIndex...> /*_*/) {
    const auto read_if = [&](auto index) {
      if (!cursor_.failed() && kind == index + 1) {
        structure("", value.template emplace<index>());
      }
    };
    (read_if(std::integral_constant<std::size_t, kIndex>{}), ...);
  }

  TapeCursor cursor_;
};

}  // namespace phalanx::wire
