// SPDX-License-Identifier: Apache-2.0
#include "phalanx/jinja/json_value.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "phalanx/json/text.h"

#include "value_kinds.h"

namespace phalanx::jinja {
namespace {

// What a text and a container take beside their characters and items, with the allocator's share.
constexpr std::size_t kTextBytes = sizeof(MarkedText) + 48;
constexpr std::size_t kContainerBytes = sizeof(Dict) + 128;
// Names of members that are kept once: those of the protocol are few and short.
constexpr std::size_t kMaxSharedNames = 64;
constexpr std::size_t kMaxSharedNameBytes = 32;

TextPtr user_text(std::string& text) {
  return std::make_shared<const MarkedText>(MarkedText::user(std::move(text)));
}

// Builds the value while the parser reads, without a document in between: the order of the keys
// stays, and depth is bounded before anything recurses.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value(value)); }
  bool number_integer(number_integer_t value) override { return add(Value(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return add_big(std::to_string(value));
    }
    return add(Value(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    // An integer too large for 64 bits arrives here, too.
    if (written.find_first_of(".eE") == string_t::npos) {
      return add_big(written);
    }
    return add(Value(value));
  }
  bool string(string_t& value) override {
    return charge(kTextBytes + value.size()) && add(Value(user_text(value)));
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool key(string_t& name) override {
    if (const auto known = names_.find(name); known != names_.end()) {
      open_.back().key = known->second;
      return true;
    }
    if (!charge(kTextBytes + name.size())) {
      return false;
    }
    const bool is_shared = names_.size() < kMaxSharedNames && name.size() <= kMaxSharedNameBytes;
    const std::string copy = is_shared ? name : std::string();
    open_.back().key = user_text(name);
    if (is_shared) {
      names_.emplace(copy, open_.back().key);
    }
    return true;
  }
  bool start_object(std::size_t /*size*/) override { return open(/*is_dict=*/true); }
  bool start_array(std::size_t /*size*/) override { return open(/*is_dict=*/false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    fault_ = "not JSON at byte " + std::to_string(position);
    return false;
  }

  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] Value take() { return std::move(root_); }

 private:
  struct Open {
    bool is_dict;
    Dict dict;
    std::vector<Value> items;
    TextPtr key;
  };

  bool open(bool is_dict) {
    if (open_.size() == kMaxValueDepth) {
      fault_ = "nested deeper than " + std::to_string(kMaxValueDepth);
      return false;
    }
    if (!charge(kContainerBytes)) {
      return false;
    }
    open_.push_back({is_dict, {}, {}, nullptr});
    return true;
  }

  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    Result<Value> value =
        done.is_dict ? Value::dict(std::move(done.dict)) : Value::list(std::move(done.items));
    if (!value) {
      fault_ = value.error().message();
      return false;
    }
    return add(*std::move(value));
  }

  bool add_big(std::string digits) {
    return add(Value(Value::BigInteger{std::make_shared<const std::string>(std::move(digits))}));
  }

  // Before it is taken: a list of two characters takes a hundred times as much as its text.
  bool charge(std::size_t bytes) {
    taken_ += bytes;
    if (taken_ > kMaxWalkBytes) {
      fault_ = "too much: its values take more than " + std::to_string(kMaxWalkBytes >> 20) + " MB";
    }
    return taken_ <= kMaxWalkBytes;
  }

  bool add(Value value) {
    if (!charge(2 * sizeof(Value))) {  // a list that grows has room for twice its items
      return false;
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_dict) {
      open_.back().dict.set(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
  std::unordered_map<std::string, TextPtr> names_;
  std::size_t taken_ = 0;
  Value root_;
  std::string fault_;
};

// Writes a value, or goes through it in the same way and only charges what would be written.
class Writer {
 public:
  Writer(const JsonStyle& style, const Charge* charge) : style_(style), charge_(charge) {}

  void reserve(std::size_t bytes) { out_.reserve(bytes); }

  Status write(const Value& value, std::size_t level) {
    if (const MarkedText* text = value.as_text()) {
      return write_string(*text);
    }
    if (const List* list = value.as_list()) {
      return write_list(*list, level);
    }
    if (const Dict* dict = value.as_dict()) {
      return write_dict(*dict, level);
    }
    if (const auto* boolean = value.get<bool>()) {
      return put(*boolean ? "true" : "false");
    }
    if (value.is_none()) {
      return put("null");
    }
    if (const auto* real = value.get<double>(); real != nullptr && !std::isfinite(*real)) {
      return put(std::isnan(*real) ? "NaN" : *real < 0 ? "-Infinity" : "Infinity");
    }
    if (value.as_number() || value.is<Value::BigInteger>()) {
      PHALANX_TRY(const MarkedText number, to_text(value));
      return put(number);
    }
    return invalid_argument(std::string(value.type_name()) + " cannot be written as JSON");
  }

  [[nodiscard]] MarkedText take() { return std::move(out_); }

 private:
  Status put(std::string_view literal) {
    if (charge_ != nullptr) {
      return (*charge_)(literal.size());
    }
    out_.append_literal(literal);
    return ok();
  }

  Status put(const MarkedText& text) {
    if (charge_ != nullptr) {
      return (*charge_)(text.size());
    }
    out_.append(text);
    return ok();
  }

  Status separate(bool first, std::size_t level) {
    if (!first) {
      // Python leaves no blank at the end of a line.
      PHALANX_RETURN_IF_ERROR(put(style_.item_separator));
    }
    return break_line(level);
  }

  Status break_line(std::size_t level) {
    if (!style_.indent.has_value()) {
      return ok();
    }
    const auto width = static_cast<std::size_t>(std::max<std::int64_t>(*style_.indent, 0));
    return put("\n" + std::string(level * width, ' '));
  }

  Status write_list(const List& list, std::size_t level) {
    PHALANX_RETURN_IF_ERROR(put("["));
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      PHALANX_RETURN_IF_ERROR(separate(i == 0, level + 1));
      PHALANX_RETURN_IF_ERROR(write(list.items[i], level + 1));
    }
    if (!list.items.empty()) {
      PHALANX_RETURN_IF_ERROR(break_line(level));
    }
    return put("]");
  }

  Status write_dict(const Dict& dict, std::size_t level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) {
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->key->text() < b->key->text();
      });
    }
    PHALANX_RETURN_IF_ERROR(put("{"));
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      PHALANX_RETURN_IF_ERROR(separate(first, level + 1));
      first = false;
      PHALANX_RETURN_IF_ERROR(write_string(*entry->key));
      PHALANX_RETURN_IF_ERROR(put(style_.key_separator));
      PHALANX_RETURN_IF_ERROR(write(entry->value, level + 1));
    }
    if (!first) {
      PHALANX_RETURN_IF_ERROR(break_line(level));
    }
    return put("}");
  }

  Status write_string(const MarkedText& text) {
    std::string escaped;
    escaped.reserve(text.size());
    json::append_escaped(text.view(),
                         style_.ensure_ascii ? json::Characters::kAscii : json::Characters::kUtf8,
                         escaped);
    PHALANX_RETURN_IF_ERROR(put("\""));
    PHALANX_RETURN_IF_ERROR(put(MarkedText::like(text, std::move(escaped))));
    return put("\"");
  }

  const JsonStyle& style_;
  const Charge* charge_;  // null: writes
  MarkedText out_;
};

}  // namespace

Result<Value> parse_json_value(std::string_view json, std::string_view what) {
  Builder builder;
  if (!nlohmann::json::sax_parse(json, &builder) || !builder.fault().empty()) {
    return invalid_argument(std::string(what) + ": expected JSON, found text that is " +
                            builder.fault());
  }
  return builder.take();
}

Result<MarkedText> to_json(const Value& value, const JsonStyle& style, const Charge& charge) {
  std::size_t bytes = 0;
  const Charge count = [&](std::size_t more) {
    bytes += more;
    return charge(more);
  };
  Writer measure(style, &count);
  PHALANX_RETURN_IF_ERROR(measure.write(value, 0));
  Writer writer(style, nullptr);
  writer.reserve(bytes);
  PHALANX_RETURN_IF_ERROR(writer.write(value, 0));
  return writer.take();
}

}  // namespace phalanx::jinja
