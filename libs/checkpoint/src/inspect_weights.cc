// SPDX-License-Identifier: Apache-2.0
#include "inspect_weights.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>
#include <vector>

#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/gguf/file.h"
#include "phalanx/gguf/split.h"
#include "phalanx/json/value.h"

#include "weight_index.h"

namespace phalanx::checkpoint {
namespace {

constexpr std::size_t kMaxIndexedConfigBytes = std::size_t{1} << 20;

void count(Inspection& inspection,
           const std::string& type,
           std::uint64_t elements,
           std::uint64_t bytes) {
  TypeUse& use = inspection.types[type];
  ++use.tensors;
  use.elements += elements;
  use.bytes += bytes;
  inspection.parameters += elements;
  inspection.weight_bytes += bytes;
}

void count_tensors(const gguf::File& file, Inspection& inspection) {
  for (const gguf::Tensor& tensor : file.tensors()) {
    count(inspection,
          std::string(gguf::traits_of(tensor.type).name),
          tensor.elements(),
          tensor.bytes.size());
  }
  ++inspection.weight_files;
}

std::string text_or_empty(const gguf::Metadata& metadata, const std::string& key) {
  const auto text = metadata.text(key);
  return text ? std::string(text->substr(0, 128)) : std::string();
}

void describe_metadata(const gguf::Metadata& metadata, Inspection& inspection) {
  inspection.architecture = text_or_empty(metadata, "general.architecture");
  inspection.name = text_or_empty(metadata, "general.name");
  const auto context = metadata.integer(
      inspection.architecture + ".context_length", 0, std::numeric_limits<std::int64_t>::max());
  if (context) {
    inspection.context_length = static_cast<std::uint64_t>(*context);
  }
  const std::string kind = text_or_empty(metadata, "tokenizer.ggml.model");
  if (!kind.empty()) {
    const std::string pre = text_or_empty(metadata, "tokenizer.ggml.pre");
    const std::uint64_t tokens = metadata.array_size("tokenizer.ggml.tokens").value_or(0);
    inspection.tokenizer =
        kind + (pre.empty() ? "" : " (" + pre + ")") + ", " + std::to_string(tokens) + " tokens";
  }
  inspection.has_chat_template = metadata.has("tokenizer.chat_template");
}

Status describe_safetensors(ModelFolder& folder, const std::string& name, Inspection& inspection) {
  PHALANX_TRY(const std::unique_ptr<FileBytes> bytes, folder.open(name));
  auto directory = parse_safetensors(bytes->bytes());
  if (!directory) {
    return std::move(directory).error().with(folder.describe(name));
  }
  for (const auto& [tensor, entry] : *directory) {
    std::uint64_t elements = 1;
    for (const std::uint64_t size : entry.shape) {
      elements *= size;
    }
    count(inspection, entry.dtype, elements, entry.bytes);
  }
  ++inspection.weight_files;
  return ok();
}

// Those that are served; where they are not all there, those that are.
std::vector<std::string> safetensors_of(ModelFolder& folder) {
  std::vector<std::string> names;
  if (const auto index = index_to_serve(folder); index && *index) {
    std::ranges::copy_if((*index)->files, std::back_inserter(names), [&](const std::string& name) {
      return folder.has(name);
    });
    return names;
  }
  if (folder.has(kSingleName)) {
    return {kSingleName};
  }
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.folder(), error), end;
       !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") {
      names.push_back(entry->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Status describe_gguf(ModelFolder& folder, Inspection& inspection) {
  const std::string& named = folder.gguf_name();
  PHALANX_TRY(const std::unique_ptr<FileBytes> bytes, folder.open(named));
  auto file = gguf::File::parse(bytes->bytes());
  if (!file) {
    return std::move(file).error().with(folder.describe(named));
  }
  inspection.format = "GGUF " + std::to_string(file->version());
  const auto keys = gguf::split_keys(file->metadata());
  if (!keys) {
    return Error(keys.error()).with(folder.describe(named));
  }
  PHALANX_TRY(const std::vector<std::string> names, gguf::split_names(named, *keys));
  for (const std::string& name : names) {
    PHALANX_TRY(const std::unique_ptr<FileBytes> part, folder.open(name));
    auto parsed = gguf::File::parse(part->bytes());
    if (!parsed) {
      return std::move(parsed).error().with(folder.describe(name));
    }
    count_tensors(*parsed, inspection);
    if (name == names.front()) {
      describe_metadata(parsed->metadata(), inspection);
    }
  }
  return ok();
}

Status describe_hugging_face(ModelFolder& folder, Inspection& inspection) {
  inspection.format = "Hugging Face";
  PHALANX_TRY(const std::unique_ptr<FileBytes> bytes, folder.open("config.json"));
  const std::string_view text(reinterpret_cast<const char*>(bytes->bytes().data()),
                              bytes->bytes().size());
  const auto config = json::parse(text, {.bytes_max = kMaxIndexedConfigBytes});
  if (!config) {
    return Error(config.error()).with(folder.describe("config.json"));
  }
  if (config->as_object() == nullptr) {
    return invalid_argument(folder.describe("config.json") + ": expected a JSON object, found " +
                            json::describe(*config));
  }
  const json::Value* const type = config->find("model_type");
  if (type != nullptr && type->as_string() != nullptr) {
    inspection.architecture = type->as_string()->substr(0, 128);
  }
  const json::Value* const context = config->find("max_position_embeddings");
  if (context != nullptr && context->as_int() != nullptr && *context->as_int() >= 0) {
    inspection.context_length = static_cast<std::uint64_t>(*context->as_int());
  }
  const std::vector<std::string> names = safetensors_of(folder);
  if (names.empty() && !folder.has(kIndexName)) {
    return not_found(folder.describe(kSingleName) + ": expected one, found none");
  }
  for (const std::string& name : names) {
    PHALANX_RETURN_IF_ERROR(describe_safetensors(folder, name, inspection));
  }
  return ok();
}

}  // namespace phalanx::checkpoint
