// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx {

// One callable of several, for std::visit.
template <typename... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};
template <typename... Callables>
Overloaded(Callables...) -> Overloaded<Callables...>;

}  // namespace phalanx
