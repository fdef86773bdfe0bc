// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/jinja/marked_text.h"

namespace phalanx::jinja {

// Containers may nest this deep; functions over values recurse no deeper.
inline constexpr std::size_t kMaxValueDepth = 128;
// What stands in a container more than once counts each time: functions over values meet it so
// often.
inline constexpr std::size_t kMaxWalkBytes = std::size_t{256} << 20;

class Value;
// Kinds that only the language itself makes and looks into.
struct MacroDefinition;
class Scope;
struct LoopState;
struct Builtin;

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  std::size_t depth = 1;
  std::size_t walk_bytes = 0;
};

// What Python gives for range(), x.items() and most filters: elements to go through that are no
// list.
struct Iterable;

// A mapping with text keys, in the order of insertion.
class Dict {
 public:
  struct Entry;

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const Value* find(std::string_view key) const;
  // Puts or replaces.
  void set(TextPtr key, Value value);
  [[nodiscard]] std::size_t depth() const { return depth_; }
  [[nodiscard]] std::size_t walk_bytes() const { return walk_bytes_; }

 private:
  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view key) const;

  std::vector<Entry> entries_;
  // Views into the entries' keys. Ordered: whoever chooses keys can make hashes collide.
  std::map<std::string_view, std::size_t> places_;
  std::size_t depth_ = 1;
  std::size_t walk_bytes_ = 0;
};

// What `namespace()` gives: the only value that a template can change.
class Namespace;

// A macro, ready to be called.
struct Macro {
  const MacroDefinition* definition = nullptr;
  Scope* scope = nullptr;  // where it was defined; outlives it
};

// A method of a value that is not called yet (`x.items` without parentheses).
struct Method;

// A value of a template: what JSON has, what Python adds that templates use, and the few kinds
// that Jinja has of its own. Copies are cheap and share what is immutable.
class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> reason;  // "'x' is undefined"
  };
  struct None {};
  // An integer that 64 bits do not hold, and a floating-point number reaches: kept as it is
  // written, without zeros in front, and no arithmetic.
  struct BigInteger {
    std::shared_ptr<const std::string> digits;

    [[nodiscard]] double nearest() const;
  };
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using IterablePtr = std::shared_ptr<const Iterable>;
  using NamespacePtr = std::shared_ptr<Namespace>;
  using MethodPtr = std::shared_ptr<const Method>;
  using Storage = std::variant<None,
                               Undefined,
                               bool,
                               std::int64_t,
                               BigInteger,
                               double,
                               TextPtr,
                               ListPtr,
                               DictPtr,
                               IterablePtr,
                               NamespacePtr,
                               MethodPtr,
                               Macro,
                               const Builtin*,
                               LoopState*>;

  Value() = default;
  template <typename T>
  explicit Value(T held) : storage_(std::move(held)) {}

  [[nodiscard]] static Value undefined(std::string reason);
  [[nodiscard]] static Value text(MarkedText text);
  [[nodiscard]] static Value literal(std::string text) {
    return Value::text(MarkedText::literal(std::move(text)));
  }
  [[nodiscard]] static Value integer(std::size_t value) {
    return Value(static_cast<std::int64_t>(value));
  }
  // Errors: kResourceExhausted  nested too deeply, or an item cannot be put into a container
  [[nodiscard]] static Result<Value> list(std::vector<Value> items, bool is_tuple = false);
  [[nodiscard]] static Result<Value> dict(Dict dict);
  // A generator of Python: true even if empty, without a length, and empty once gone through.
  [[nodiscard]] static Result<Value> once(std::vector<Value> items);
  // A view ("dict_items"), which may be gone through again.
  [[nodiscard]] static Result<Value> view(std::string_view name, std::vector<Value> items);
  // range(first, stop, step), whose numbers are `items`.
  [[nodiscard]] static Result<Value> range(std::int64_t first,
                                           std::int64_t stop,
                                           std::int64_t step,
                                           std::vector<Value> items);

  template <typename T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&storage_);
  }
  template <typename T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(storage_);
  }
  [[nodiscard]] bool is_undefined() const { return is<Undefined>(); }
  [[nodiscard]] bool is_none() const { return is<None>(); }
  [[nodiscard]] const MarkedText* as_text() const;
  [[nodiscard]] const List* as_list() const;
  [[nodiscard]] const Dict* as_dict() const;
  [[nodiscard]] const Iterable* as_iterable() const;
  // Integers and booleans, which Python counts as integers.
  [[nodiscard]] std::optional<std::int64_t> as_integer() const;
  // Integers, booleans and floating-point numbers.
  [[nodiscard]] std::optional<double> as_number() const;

  // Whether the value may be put into a container: the kinds that live no longer than their scope
  // may not, nor namespaces, which could then contain themselves.
  [[nodiscard]] bool is_storable() const;
  [[nodiscard]] std::size_t depth() const;
  // What a function that goes through all of the value comes across.
  [[nodiscard]] std::size_t walk_bytes() const;

  [[nodiscard]] bool is_true() const;
  // "str", "dict object", …, as error messages name it.
  [[nodiscard]] std::string_view type_name() const;

 private:
  Storage storage_;
};

struct Dict::Entry {
  TextPtr key;
  Value value;
};

}  // namespace phalanx::jinja
