// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"

#include "tape.h"

namespace phalanx::wire {

// Takes the objects of a tape one after the other and remembers the first that is not what was
// expected, with the path of its field. After an error every method returns an empty value.
class TapeCursor {
 public:
  TapeCursor(std::string_view frame_name, const std::vector<TapeItem>& tape);

  // A level of the path; leaves it when destroyed.
  class Scope {
   public:
    explicit Scope(TapeCursor& cursor) : cursor_(cursor) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { cursor_.path_.pop_back(); }

   private:
    TapeCursor& cursor_;
  };
  [[nodiscard]] Scope enter(std::string_view name);

  // The element of the current level that is read next, for messages.
  void set_index(std::size_t index) { path_.back().index = index; }

  [[nodiscard]] std::uint64_t unsigned_number(std::string_view name,
                                              std::uint64_t low,
                                              std::uint64_t high);
  [[nodiscard]] std::int64_t signed_number(std::string_view name,
                                           std::int64_t low,
                                           std::int64_t high);
  [[nodiscard]] bool boolean(std::string_view name);

  // A number in [low, high]; never NaN.
  [[nodiscard]] float real(std::string_view name, float low, float high);

  // Nil, or a number that is not NaN.
  [[nodiscard]] std::optional<float> optional_real(std::string_view name);

  [[nodiscard]] std::string text(std::string_view name, std::size_t most);

  // A blob of at most `most` records of `record` bytes. Points into the frame.
  [[nodiscard]] std::string_view blob(std::string_view name, std::size_t record, std::size_t most);

  void array_of(std::size_t elements);
  [[nodiscard]] std::size_t array_up_to(std::size_t most);

  void refuse(std::string_view name, std::string_view expected, std::string_view came = {});

  [[nodiscard]] bool failed() const { return error_.has_value(); }

  // Requires failed().
  [[nodiscard]] Error error() && { return *std::move(error_); }

 private:
  struct Level {
    std::string_view name;
    std::optional<std::size_t> index;
  };

  // The next object if it is of `kind`; else refuses it.
  const TapeItem* next(std::string_view name, TapeItem::Kind kind, std::string_view expected);
  const TapeItem* next(std::string_view name, std::string_view expected);

  const std::vector<TapeItem>& tape_;
  std::size_t position_ = 0;
  std::vector<Level> path_;
  std::optional<Error> error_;
};

}  // namespace phalanx::wire
