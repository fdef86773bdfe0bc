// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/model_path.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "phalanx/os/read_file.h"

#include "weight_index.h"

namespace phalanx::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGgufEnding = ".gguf";
constexpr const char* kFileOfFolder = "config.json";  // that makes a folder a model

bool has(const fs::path& folder, std::string_view name) {
  return os::has_entry((folder / name).string());
}

// The first by name of which `is_meant` is true; empty if there is none.
std::string first_entry(const fs::path& folder,
                        const std::function<bool(const std::string&)>& is_meant) {
  std::error_code error;
  std::string first;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if ((first.empty() || name < first) && is_meant(name)) {
      first = name;
    }
  }
  return first;
}

std::string first_ending_with(const fs::path& folder, std::string_view ending) {
  return first_entry(folder, [&](const std::string& name) { return name.ends_with(ending); });
}

Status check_file(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.ends_with(".safetensors") && !name.ends_with(".json")) {
    return ok();
  }
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  return invalid_argument(
      file.string() + ": expected a folder or a GGUF file, found a file of a folder: name the " +
      "folder, as in " + folder);
}

// A folder of a hub's cache has a folder for each version of a model.
Status no_config(const fs::path& folder) {
  const fs::path versions = folder / "snapshots";
  const std::string version = first_entry(
      versions, [&](const std::string& name) { return has(versions / name, kFileOfFolder); });
  std::string found = " none";
  if (const std::string gguf = first_ending_with(folder, kGgufEnding); !gguf.empty()) {
    found = " a GGUF file: name it, as in " + (folder / gguf).string();
  } else if (has(folder, "adapter_config.json")) {
    found = " an adapter: merge it into its model, and name that";
  } else if (!version.empty()) {
    found = " one in a folder of a version: name that, as in " + (versions / version).string();
  }
  return not_found(folder.string() + ": expected " + kFileOfFolder + ", found" + found);
}

Status no_weights(const fs::path& folder) {
  std::string found = " none";
  if (const std::string gguf = first_ending_with(folder, kGgufEnding); !gguf.empty()) {
    found = " a GGUF file: name it, as in " + (folder / gguf).string();
  } else if (const std::string other = first_ending_with(folder, ".safetensors"); !other.empty()) {
    found = " only " + other;
  } else if (const std::string pickled = first_entry(folder,
                                                     [](const std::string& name) {
                                                       return name.starts_with("pytorch_model") ||
                                                              name.ends_with(".pth");
                                                     });
             !pickled.empty()) {
    found = " " + pickled +
            ", which is not read, as it is a program: save_pretrained() of transformers writes the "
            "other kind";
  }
  return not_found(folder.string() + ": expected " + kSingleName + ", or " + kIndexName +
                   " and its files, found" + found);
}

// "-00001-of-00003", which names of split files end in.
std::string_view without_split_number(std::string_view stem) {
  constexpr std::string_view kShape = "-#####-of-#####";
  if (stem.size() <= kShape.size()) {
    return stem;
  }
  const std::string_view end = stem.substr(stem.size() - kShape.size());
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kShape[i] == '#' ? !digit : end[i] != kShape[i]) {
      return stem;
    }
  }
  return stem.substr(0, stem.size() - kShape.size());
}

}  // namespace

Status check_model_path(const std::string& path) {
  std::error_code error;
  const fs::path place(path);
  const fs::file_status status = fs::status(place, error);
  if (status.type() == fs::file_type::none) {
    return errno_error(path, error.value());
  }
  if (fs::is_regular_file(status)) {
    return check_file(place);
  }
  if (!fs::is_directory(status)) {
    return not_found(path + ": expected the folder of a Hugging Face checkpoint or a GGUF file, " +
                     "found none; nothing is fetched from a hub here");
  }
  if (::access(path.c_str(), X_OK) != 0) {
    return errno_error(path, errno);
  }
  if (!has(place, kFileOfFolder)) {
    return no_config(place);
  }
  return has(place, kSingleName) || has(place, kIndexName) ? ok() : no_weights(place);
}

std::string model_name_of(const std::string& path) {
  std::error_code error;
  fs::path place(path);
  if (!place.has_filename()) {
    place = place.parent_path();  // a path that ends in a slash
  }
  if (place.filename() == "." || place.filename() == "..") {
    place = fs::weakly_canonical(place, error);
  }
  std::string name = place.filename().string();
  if (name.empty()) {
    return "model";
  }
  if (!fs::is_regular_file(place, error) || !name.ends_with(kGgufEnding) || name == kGgufEnding) {
    return name;
  }
  const std::string_view stem = std::string_view(name).substr(0, name.size() - kGgufEnding.size());
  return std::string(without_split_number(stem));
}

}  // namespace phalanx::checkpoint
