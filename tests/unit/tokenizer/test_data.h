// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "phalanx/tokenizer/tokenizer.h"

#include "source_dir.h"

namespace phalanx::tokenizer {

inline std::filesystem::path data_folder() {
  return std::filesystem::path(PHALANX_SOURCE_DIR) / "tests" / "unit" / "tokenizer" / "data";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// tokenizer.json of the fixture, to change and load.
inline nlohmann::json fixture_json() {
  return nlohmann::json::parse(read_text(data_folder() / "fixture" / "tokenizer.json"));
}

inline std::unique_ptr<Tokenizer> load_json(const nlohmann::json& tokenizer,
                                            const nlohmann::json& config = nullptr) {
  auto loaded =
      load_tokenizer_from_text(tokenizer.dump(), config.is_null() ? std::string() : config.dump());
  EXPECT_TRUE(loaded.has_value()) << loaded.error().to_string();
  return loaded ? *std::move(loaded) : nullptr;
}

inline const Tokenizer& fixture() {
  static const std::unique_ptr<Tokenizer> kFixture = load_json(fixture_json());
  return *kFixture;
}

}  // namespace phalanx::tokenizer
