// SPDX-License-Identifier: Apache-2.0
#include "unset_names.h"

#include <array>
#include <map>
#include <set>
#include <utility>

namespace phalanx::jinja {
namespace {

// What the statements of one scope say about names, in the order in which they stand; or those of
// one branch in it, which goes on from what the statements before it said.
class Symbols {
 public:
  // Of a scope inside `parent`, which may be null.
  static Symbols scope(const Symbols* parent) { return {parent, nullptr}; }
  // Of a branch. Copies nothing, so that analysis stays linear in the size of a template.
  [[nodiscard]] Symbols branch() const { return {nullptr, this}; }

  void load(std::string_view name) {
    if (!knows(name)) {
      origins_.emplace(name, Origin::kOutside);
    }
  }

  void store(std::string_view name) {
    stores_.insert(name);
    if (!in_scope(name)) {
      origins_.emplace(name, knows(name) ? Origin::kOutside : Origin::kUnset);
    }
  }

  // A parameter or the target of a loop, set where the scope begins.
  void declare(std::string_view name) {
    stores_.insert(name);
    origins_.insert_or_assign(name, Origin::kOutside);
  }

  // Takes in the three parts of an `if`, each a branch of this: the body, the elifs, the else. A
  // name that not all of them set may keep its value from outside.
  void join(const std::array<Symbols, 3>& parts) {
    std::map<std::string_view, std::size_t> times_stored;
    for (const Symbols& part : parts) {
      for (const std::string_view name : part.stores_) {
        times_stored[name] += is_stored(name) ? 0U : 1U;
      }
    }
    for (const Symbols& part : parts) {
      for (const auto& [name, origin] : part.origins_) {
        origins_.insert_or_assign(name, origin);
      }
      stores_.insert(part.stores_.begin(), part.stores_.end());
    }
    for (const auto& [name, times] : times_stored) {
      if (times % parts.size() != 0) {
        origins_.insert_or_assign(name, Origin::kOutside);
      }
    }
  }

  [[nodiscard]] std::vector<std::string_view> unset() const {
    std::vector<std::string_view> result;
    for (const auto& [name, origin] : origins_) {
      if (origin == Origin::kUnset) {
        result.push_back(name);
      }
    }
    return result;
  }

 private:
  // Where the value comes from that a name has at the beginning of the scope.
  enum class Origin { kOutside, kUnset };

  Symbols(const Symbols* parent, const Symbols* before) : parent_(parent), before_(before) {}

  [[nodiscard]] bool is_stored(std::string_view name) const {
    return stores_.contains(name) || (before_ != nullptr && before_->is_stored(name));
  }
  [[nodiscard]] bool in_scope(std::string_view name) const {
    return origins_.contains(name) || (before_ != nullptr && before_->in_scope(name));
  }
  [[nodiscard]] bool knows(std::string_view name) const {
    return origins_.contains(name) || (before_ != nullptr && before_->knows(name)) ||
           (parent_ != nullptr && parent_->knows(name));
  }

  const Symbols* parent_;
  const Symbols* before_;
  std::map<std::string_view, Origin> origins_;
  std::set<std::string_view> stores_;
};

// Recursion is as deep as the syntax, which the parser bounds.
class Analysis {
 public:
  void scope(const Body& body, Symbols symbols, const ExpressionPtr& filters = nullptr) {
    Scopes inner;
    visit(body, symbols, inner);
    load(filters, symbols);
    if (std::vector<std::string_view> names = symbols.unset(); !names.empty()) {
      names_.emplace(&body, std::move(names));
    }
    for (const Statement* const statement : inner) {
      scopes_of(*statement, symbols);
    }
  }

  [[nodiscard]] std::unordered_map<const Body*, std::vector<std::string_view>> take() {
    return std::move(names_);
  }

 private:
  // The statements of a scope that begin scopes inside it.
  using Scopes = std::vector<const Statement*>;
  using Kind = Statement::Kind;

  void scopes_of(const Statement& statement, const Symbols& outside) {
    Symbols symbols = Symbols::scope(&outside);
    for (const auto& [target, value] : statement.assignments) {
      declare(target, symbols);
    }
    if (statement.kind == Kind::kFor) {
      scope(statement.else_body, symbols);
      symbols.declare("loop");
      declare(statement.target, symbols);
    }
    if (statement.macro == nullptr) {
      scope(statement.body, std::move(symbols), statement.filters);
      return;
    }
    for (const std::string& parameter : statement.macro->parameters) {
      symbols.declare(parameter);
    }
    for (const ExpressionPtr& value : statement.macro->defaults) {
      load(value, symbols);
    }
    scope(statement.macro->body, std::move(symbols));
  }

  static void visit(const Body& body, Symbols& symbols, Scopes& inner) {
    for (const StatementPtr& statement : body) {
      visit(*statement, symbols, inner);
    }
  }

  static void visit(const Statement& statement, Symbols& symbols, Scopes& inner) {
    if (statement.kind == Kind::kIf) {
      return visit_if(statement, symbols, inner);
    }
    load(statement.expression, symbols);
    for (const auto& [target, value] : statement.assignments) {
      load(value, symbols);
    }
    if (statement.kind == Kind::kFilter) {
      load(statement.filters, symbols);
    }
    if (statement.kind == Kind::kSet || statement.kind == Kind::kSetBlock) {
      store(statement.target, symbols);
    }
    if (statement.macro != nullptr) {
      symbols.store(statement.macro->name);
    }
    if (statement.kind == Kind::kFor || statement.kind == Kind::kSetBlock ||
        statement.kind == Kind::kWith || statement.kind == Kind::kFilter ||
        statement.kind == Kind::kScope || statement.kind == Kind::kMacro) {
      inner.push_back(&statement);
    }
  }

  static void visit_if(const Statement& statement, Symbols& symbols, Scopes& inner) {
    const auto& branches = statement.branches;
    load(branches.front().first, symbols);
    std::array<Symbols, 3> parts{symbols.branch(), symbols.branch(), symbols.branch()};
    visit(branches.front().second, parts[0], inner);
    for (std::size_t i = 1; i < branches.size(); ++i) {
      // Jinja takes each elif for an `if` of its own that has no other part.
      load(branches[i].first, parts[1]);
      const Symbols& before = parts[1];
      std::array<Symbols, 3> alone{before.branch(), before.branch(), before.branch()};
      visit(branches[i].second, alone[0], inner);
      parts[1].join(alone);
    }
    visit(statement.else_body, parts[2], inner);
    symbols.join(parts);
  }

  static void load(const ExpressionPtr& expression, Symbols& symbols) {
    if (expression == nullptr) {
      return;
    }
    if (expression->kind == Expression::Kind::kName) {
      symbols.load(expression->name);
    }
    for (const ExpressionPtr& operand : expression->operands) {
      load(operand, symbols);
    }
    for (const auto& [name, operand] : expression->named) {
      load(operand, symbols);
    }
  }

  static void declare(const Target& target, Symbols& symbols) {
    for (const std::string& name : target.names) {
      symbols.declare(name);
    }
  }

  static void store(const Target& target, Symbols& symbols) {
    for (const std::string& name : target.names) {
      target.attribute.empty() ? symbols.store(name) : symbols.load(name);
    }
  }

  std::unordered_map<const Body*, std::vector<std::string_view>> names_;
};

}  // namespace

UnsetNames::UnsetNames(const Body& root) {
  Analysis analysis;
  analysis.scope(root, Symbols::scope(nullptr));
  names_ = analysis.take();
}

std::span<const std::string_view> UnsetNames::of(const Body& body) const {
  const auto found = names_.find(&body);
  return found == names_.end() ? std::span<const std::string_view>() : found->second;
}

}  // namespace phalanx::jinja
