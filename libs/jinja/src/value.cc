// SPDX-License-Identifier: Apache-2.0
#include "phalanx/jinja/value.h"

#include <algorithm>
#include <charconv>

#include "phalanx/base/utf8.h"

#include "value_kinds.h"

namespace phalanx::jinja {
namespace {

// Below this many keys a search is faster than a table.
constexpr std::size_t kIndexedDictKeys = 16;

Error too_much_to_walk() {
  return resource_exhausted("lists and dicts hold more than " + std::to_string(kMaxWalkBytes) +
                            " bytes of values, with those that stand in them more than once");
}

}  // namespace

std::optional<std::size_t> Dict::place_of(std::string_view key) const {
  if (!places_.empty()) {
    const auto place = places_.find(key);
    return place == places_.end() ? std::nullopt : std::optional(place->second);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].key->view() == key) {
      return i;
    }
  }
  return std::nullopt;
}

const Value* Dict::find(std::string_view key) const {
  const std::optional<std::size_t> place = place_of(key);
  return place.has_value() ? &entries_[*place].value : nullptr;
}

void Dict::set(TextPtr key, Value value) {
  depth_ = std::max(depth_, value.depth() + 1);
  walk_bytes_ += value.walk_bytes();
  if (const std::optional<std::size_t> place = place_of(key->text())) {
    walk_bytes_ -= entries_[*place].value.walk_bytes();
    entries_[*place].value = std::move(value);  // the key stays as it was first written
    return;
  }
  walk_bytes_ += sizeof(Value) + key->size();
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() == kIndexedDictKeys) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      places_.emplace(entries_[i].key->view(), i);
    }
  } else if (entries_.size() > kIndexedDictKeys) {
    places_.emplace(entries_.back().key->view(), entries_.size() - 1);
  }
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) {
      return &value;
    }
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [known, held] : values_) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  values_.emplace_back(name, std::move(value));
}

Value Value::undefined(std::string reason) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

Value Value::text(MarkedText text) {
  return Value(TextPtr(std::make_shared<const MarkedText>(std::move(text))));
}

Result<Value> Value::list(std::vector<Value> items, bool is_tuple) {
  std::size_t depth = 1;
  std::size_t walk_bytes = items.size() * sizeof(Value);
  for (const Value& item : items) {
    if (!item.is_storable()) {
      return invalid_argument(std::string(item.type_name()) + " cannot be put into a list");
    }
    depth = std::max(depth, item.depth() + 1);
    walk_bytes += item.walk_bytes();
    if (walk_bytes > kMaxWalkBytes) {
      return too_much_to_walk();
    }
  }
  if (depth > kMaxValueDepth) {
    return resource_exhausted("lists nest deeper than " + std::to_string(kMaxValueDepth));
  }
  return Value(
      ListPtr(std::make_shared<const List>(List{std::move(items), is_tuple, depth, walk_bytes})));
}

Result<Value> Value::dict(Dict dict) {
  for (const Dict::Entry& entry : dict.entries()) {
    if (!entry.value.is_storable()) {
      return invalid_argument(std::string(entry.value.type_name()) + " cannot be put into a dict");
    }
  }
  if (dict.depth() > kMaxValueDepth) {
    return resource_exhausted("dicts nest deeper than " + std::to_string(kMaxValueDepth));
  }
  if (dict.walk_bytes() > kMaxWalkBytes) {
    return too_much_to_walk();
  }
  return Value(DictPtr(std::make_shared<const Dict>(std::move(dict))));
}

Result<Value> Value::once(std::vector<Value> items) {
  PHALANX_TRY(const Value checked, list(items));
  Iterable iterable;
  iterable.name = "generator object";
  iterable.items = std::move(items);
  iterable.is_once = true;
  iterable.depth = checked.depth();
  iterable.walk_bytes = checked.walk_bytes();
  return Value(IterablePtr(std::make_shared<const Iterable>(std::move(iterable))));
}

Result<Value> Value::view(std::string_view name, std::vector<Value> items) {
  PHALANX_TRY(const Value checked, list(items));
  Iterable iterable;
  iterable.name = name;
  iterable.items = std::move(items);
  iterable.depth = checked.depth();
  iterable.walk_bytes = checked.walk_bytes();
  return Value(IterablePtr(std::make_shared<const Iterable>(std::move(iterable))));
}

Result<Value> Value::range(std::int64_t first,
                           std::int64_t stop,
                           std::int64_t step,
                           std::vector<Value> items) {
  Iterable iterable;
  iterable.name = "range object";
  iterable.items = std::move(items);
  iterable.first = first;
  iterable.stop = stop;
  iterable.step = step;
  return Value(IterablePtr(std::make_shared<const Iterable>(std::move(iterable))));
}

double Value::BigInteger::nearest() const {
  double value = 0;
  std::from_chars(digits->data(), digits->data() + digits->size(), value);
  return value;
}

const MarkedText* Value::as_text() const {
  const auto* text = get<TextPtr>();
  return text == nullptr ? nullptr : text->get();
}

const List* Value::as_list() const {
  const auto* list = get<ListPtr>();
  return list == nullptr ? nullptr : list->get();
}

const Dict* Value::as_dict() const {
  const auto* dict = get<DictPtr>();
  return dict == nullptr ? nullptr : dict->get();
}

const Iterable* Value::as_iterable() const {
  const auto* iterable = get<IterablePtr>();
  return iterable == nullptr ? nullptr : iterable->get();
}

std::optional<std::int64_t> Value::as_integer() const {
  if (const auto* integer = get<std::int64_t>()) {
    return *integer;
  }
  if (const auto* boolean = get<bool>()) {
    return *boolean ? 1 : 0;
  }
  return std::nullopt;
}

std::optional<double> Value::as_number() const {
  if (const auto* real = get<double>()) {
    return *real;
  }
  if (const auto integer = as_integer()) {
    return static_cast<double>(*integer);
  }
  return std::nullopt;
}

bool Value::is_storable() const {
  if (const auto* method = get<MethodPtr>()) {
    return (*method)->object.is_storable();
  }
  return !is<NamespacePtr>() && !is<Macro>() && !is<LoopState*>();
}

std::size_t Value::depth() const {
  if (const List* list = as_list()) {
    return list->depth;
  }
  if (const Dict* dict = as_dict()) {
    return dict->depth();
  }
  if (const Iterable* iterable = as_iterable()) {
    return iterable->depth;
  }
  if (const auto* method = get<MethodPtr>()) {
    return (*method)->object.depth() + 1;
  }
  return 0;
}

std::size_t Value::walk_bytes() const {
  if (const MarkedText* text = as_text()) {
    return text->size();
  }
  if (const List* list = as_list()) {
    return list->walk_bytes;
  }
  if (const Dict* dict = as_dict()) {
    return dict->walk_bytes();
  }
  if (const Iterable* iterable = as_iterable()) {
    return iterable->walk_bytes;
  }
  if (const auto* method = get<MethodPtr>()) {
    return (*method)->object.walk_bytes();
  }
  return 0;
}

bool Value::is_true() const {
  if (const auto number = as_number()) {
    return *number != 0;
  }
  if (const MarkedText* string = as_text()) {
    return !string->empty();
  }
  if (const List* list = as_list()) {
    return !list->items.empty();
  }
  if (const Dict* dict = as_dict()) {
    return !dict->entries().empty();
  }
  if (const Iterable* iterable = as_iterable()) {
    return iterable->is_once || !iterable->items.empty();
  }
  return !is_none() && !is_undefined();
}

std::string_view Value::type_name() const {
  struct Names {
    std::string_view operator()(None) const { return "None"; }
    std::string_view operator()(const Undefined&) const { return "an undefined value"; }
    std::string_view operator()(bool) const { return "bool object"; }
    std::string_view operator()(std::int64_t) const { return "int object"; }
    std::string_view operator()(const BigInteger&) const { return "int object beyond 64 bits"; }
    std::string_view operator()(double) const { return "float object"; }
    std::string_view operator()(const TextPtr&) const { return "str object"; }
    std::string_view operator()(const ListPtr& list) const {
      return list->is_tuple ? "tuple object" : "list object";
    }
    std::string_view operator()(const DictPtr&) const { return "dict object"; }
    std::string_view operator()(const IterablePtr& iterable) const { return iterable->name; }
    std::string_view operator()(const Builtin*) const { return "function object"; }
    std::string_view operator()(const NamespacePtr&) const { return "namespace object"; }
    std::string_view operator()(const MethodPtr&) const { return "method object"; }
    std::string_view operator()(Macro) const { return "macro object"; }
    std::string_view operator()(LoopState*) const { return "loop object"; }
  };
  return std::visit(Names{}, storage_);
}

Result<std::vector<Value>> elements(const Value& value) {
  if (const List* list = value.as_list()) {
    return list->items;
  }
  std::vector<Value> result;
  if (const Dict* dict = value.as_dict()) {
    for (const Dict::Entry& entry : dict->entries()) {
      result.emplace_back(entry.key);
    }
    return result;
  }
  if (const MarkedText* text = value.as_text()) {
    for (std::size_t i = 0; i < text->size();) {
      const std::size_t begin = i;
      static_cast<void>(next_code_point(text->view(), i));
      result.push_back(Value::text(text->slice(begin, i)));
    }
    return result;
  }
  if (const Iterable* iterable = value.as_iterable()) {
    result.assign(iterable->items.begin() + static_cast<std::ptrdiff_t>(iterable->next),
                  iterable->items.end());
    iterable->next = iterable->is_once ? iterable->items.size() : 0;
    return result;
  }
  if (value.is_undefined()) {
    return result;
  }
  return invalid_argument(std::string(value.type_name()) + " cannot be iterated");
}

std::size_t elements_bytes(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return count_code_points(text->view()) * (sizeof(Value) + kTextBytes);
  }
  if (const Iterable* iterable = value.as_iterable()) {
    return iterable->items.size() * sizeof(Value);
  }
  return length(value).value_or(0) * sizeof(Value);
}

Result<std::size_t> length(const Value& value) {
  if (const List* list = value.as_list()) {
    return list->items.size();
  }
  if (const Dict* dict = value.as_dict()) {
    return dict->entries().size();
  }
  if (const MarkedText* text = value.as_text()) {
    return count_code_points(text->view());
  }
  if (const Iterable* iterable = value.as_iterable(); iterable != nullptr && !iterable->is_once) {
    return iterable->items.size();
  }
  if (value.is_undefined()) {
    return std::size_t{0};
  }
  return invalid_argument(std::string(value.type_name()) + " has no length");
}

}  // namespace phalanx::jinja
