// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/base/hash.h"
#include "phalanx/json/value.h"
#include "phalanx/tensor/half.h"

#include "gguf_config.h"
#include "gguf_model.h"
#include "weight_index.h"

namespace phalanx::checkpoint {
namespace {

constexpr const char* kConfigName = "config.json";
constexpr const char* kGenerationName = "generation_config.json";
constexpr const char* kAdapterName = "adapter_config.json";
constexpr const char* kHead = "lm_head.weight";

std::string_view text_of(const FileBytes& file) {
  const std::span<const std::byte> bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<gguf::TensorType> weight_type(std::string_view tensor, std::string_view dtype) {
  if (dtype == "BF16") {
    return gguf::TensorType::kBF16;
  }
  if (dtype == "F16") {
    return gguf::TensorType::kF16;
  }
  if (dtype == "F32") {
    return gguf::TensorType::kF32;
  }
  return data_loss("tensor \"" + std::string(tensor) +
                   "\": expected dtype BF16, F16 or F32, found " + std::string(dtype));
}

std::vector<std::uint64_t> shape_of(const WeightSpec& spec) {
  if (spec.rows == 0) {
    return {spec.columns};
  }
  return {spec.rows, spec.columns};
}

// What older versions of Transformers and others saved beside the weights, and makes no difference:
// what config.json says of the rotation, masks, and scales of a KV cache in fp8.
bool is_buffer(std::string_view tensor) {
  constexpr std::array<std::string_view, 8> kEndings = {"rotary_emb.inv_freq",
                                                        "rotary_emb.cos_cached",
                                                        "rotary_emb.sin_cached",
                                                        ".masked_bias",
                                                        ".attn.bias",
                                                        ".k_scale",
                                                        ".v_scale",
                                                        ".kv_scale"};
  return std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return tensor.ends_with(ending); });
}

// Layers from `layers` on are for other uses, such as drafting several tokens at once.
bool is_of_layer_below(std::string_view tensor, std::uint32_t layers) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!tensor.starts_with(kPrefix)) {
    return false;
  }
  const char* const end = tensor.data() + tensor.size();
  std::uint32_t layer = 0;
  const auto [after, error] = std::from_chars(tensor.data() + kPrefix.size(), end, layer);
  return error == std::errc() && after != end && *after == '.' && layer < layers;
}

// Who has trained it meant it to be computed with.
bool is_of_the_computation(std::string_view tensor, const ModelConfig& config) {
  return is_of_layer_below(tensor, config.layers) || tensor == "model.norm.bias" ||
         tensor == "lm_head.bias";
}

}  // namespace

std::string UnusedTensors::text() const {
  if (count == 0) {
    return {};
  }
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors") +
         " of the model not used, the first: " + first;
}

std::vector<WeightSpec> required_weights(const ModelConfig& config) {
  const std::uint64_t hidden = config.hidden;
  const std::uint64_t head_dim = config.head_dim;
  const std::uint64_t q_rows = config.heads * head_dim;
  const std::uint64_t kv_rows = config.kv_heads * head_dim;
  std::vector<WeightSpec> specs;
  specs.push_back({"model.embed_tokens.weight", config.vocab, hidden});
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto product =
        [&](const char* name, std::uint64_t rows, std::uint64_t columns, bool bias) {
          specs.push_back({prefix + name + ".weight", rows, columns});
          if (bias) {
            specs.push_back({prefix + name + ".bias", 0, rows});
          }
        };
    specs.push_back({prefix + "input_layernorm.weight", 0, hidden});
    product("self_attn.q_proj", q_rows, hidden, config.qkv_bias);
    product("self_attn.k_proj", kv_rows, hidden, config.qkv_bias);
    product("self_attn.v_proj", kv_rows, hidden, config.qkv_bias);
    product("self_attn.o_proj", hidden, q_rows, config.output_bias);
    if (config.qk_norm) {
      specs.push_back({prefix + "self_attn.q_norm.weight", 0, head_dim});
      specs.push_back({prefix + "self_attn.k_norm.weight", 0, head_dim});
    }
    specs.push_back({prefix + "post_attention_layernorm.weight", 0, hidden});
    product("mlp.gate_proj", config.intermediate, hidden, config.mlp_bias);
    product("mlp.up_proj", config.intermediate, hidden, config.mlp_bias);
    product("mlp.down_proj", hidden, config.intermediate, config.mlp_bias);
  }
  specs.push_back({"model.norm.weight", 0, hidden});
  if (!config.tied_head) {
    specs.push_back({kHead, config.vocab, hidden});
  }
  return specs;
}

Result<ModelConfig> Checkpoint::read_config(FileSource& files) {
  if (const std::string name = files.gguf_name(); !name.empty()) {
    PHALANX_TRY(const GgufModel model, GgufModel::open(files, name));
    return read_gguf_config(model);
  }
  PHALANX_TRY(const std::unique_ptr<FileBytes> file, files.open(kConfigName));
  auto config = parse_config(text_of(*file));
  if (!config) {
    return std::move(config).error().with(files.describe(kConfigName));
  }
  return config;
}

Result<GenerationDefaults> Checkpoint::read_generation(FileSource& files,
                                                       const ModelConfig& config) {
  if (const std::string name = files.gguf_name(); !name.empty()) {
    PHALANX_TRY(const GgufModel model, GgufModel::open(files, name));
    return read_gguf_generation(model, config);
  }
  if (!files.has(kGenerationName)) {
    return default_generation(config);
  }
  PHALANX_TRY(const std::unique_ptr<FileBytes> file, files.open(kGenerationName));
  auto defaults = parse_generation_config(text_of(*file), config);
  if (!defaults) {
    return std::move(defaults).error().with(files.describe(kGenerationName));
  }
  return defaults;
}

Status Checkpoint::open_shard(FileSource& files, const std::string& name) {
  PHALANX_TRY(std::unique_ptr<FileBytes> file, files.open(name));
  auto directory = parse_safetensors(file->bytes());
  if (!directory) {
    return std::move(directory).error().with(files.describe(name));
  }
  files_.push_back(std::move(file));
  directories_.push_back(*std::move(directory));
  file_names_.push_back(files.describe(name));
  return ok();
}

Status Checkpoint::open_files(FileSource& files) {
  PHALANX_TRY(std::optional<WeightIndex> index, index_to_serve(files));
  if (!index) {
    PHALANX_RETURN_IF_ERROR(open_shard(files, kSingleName));
    for (const auto& [name, entry] : directories_.front()) {
      file_of_.emplace(name, 0);
    }
    return ok();
  }
  for (const std::string& name : index->files) {
    if (auto opened = open_shard(files, name); !opened) {
      const std::size_t count = index->files.size();
      return std::move(opened).error().with(files.describe(kIndexName) + " names " +
                                            std::to_string(count) +
                                            (count == 1 ? " file" : " files"));
    }
  }
  file_of_ = std::move(index->file_of);
  // Readers take all that lies in these files, whatever the index names of it, and of two of a name
  // some the one and some the other.
  for (std::size_t number = 0; number < directories_.size(); ++number) {
    for (const auto& [name, entry] : directories_[number]) {
      const std::size_t other = file_of_.emplace(name, number).first->second;
      if (other != number && directories_[other].contains(name)) {
        return data_loss("tensor \"" + name + "\": expected in one file, found in " +
                         file_names_[std::min(other, number)] + " and in " +
                         file_names_[std::max(other, number)]);
      }
    }
  }
  return ok();
}

Status Checkpoint::place(const WeightSpec& spec) {
  const auto file = file_of_.find(spec.name);
  const std::vector<std::uint64_t> shape = shape_of(spec);
  if (file == file_of_.end()) {
    const bool is_head = spec.name == kHead;
    return not_found(file_names_.front() + (file_names_.size() > 1 ? " and the others" : "") +
                     ": tensor \"" + spec.name + "\": expected shape " + shape_text(shape) +
                     ", found no such tensor" +
                     (is_head ? "; tie_word_embeddings does without" : ""));
  }
  const std::size_t number = file->second;
  const auto found = directories_[number].find(spec.name);
  if (found == directories_[number].end()) {
    return not_found("tensor \"" + spec.name + "\": expected in " + file_names_[number] +
                     ", as the index says, found no such tensor there");
  }
  const SafetensorsEntry& entry = found->second;
  if (entry.shape != shape) {
    return data_loss(file_names_[number] + ": tensor \"" + spec.name + "\": expected shape " +
                     shape_text(shape) + ", found " + shape_text(entry.shape));
  }
  Placed placed;
  auto type = weight_type(spec.name, entry.dtype);
  if (!type) {
    return std::move(type).error().with(file_names_[number]);
  }
  placed.tensor.type = *type;
  placed.tensor.rows = spec.rows == 0 ? 1 : spec.rows;
  placed.tensor.columns = spec.columns;
  placed.tensor.bytes = files_[number]->bytes().subspan(entry.offset, entry.bytes);
  placed.file = number;
  placed.offset = entry.offset;
  keep(spec, placed);
  return ok();
}

// A head that is the embedding may be written down once more. Of another one some readers, such as
// Transformers 5, make the head all the same, and others drop it.
Status Checkpoint::check_tied_head(std::size_t file, const SafetensorsEntry& entry) const {
  const auto bytes = files_[file]->bytes().subspan(entry.offset, entry.bytes);
  const WeightTensor& embedding = weight("model.embed_tokens.weight");
  const auto type = weight_type(kHead, entry.dtype);
  if (type && *type == embedding.type && bytes.size() == embedding.bytes.size() &&
      std::memcmp(bytes.data(), embedding.bytes.data(), bytes.size()) == 0) {
    return ok();
  }
  return unimplemented(file_names_[file] + ": tensor \"" + kHead +
                       "\": expected a copy of model.embed_tokens.weight, or none, as "
                       "tie_word_embeddings is true, found another: set tie_word_embeddings to "
                       "false in config.json where it is the head, or remove it where it is not");
}

Status Checkpoint::check_unused() {
  for (const auto& [name, file] : file_of_) {
    if (weights_.contains(name) || is_buffer(name)) {
      continue;
    }
    const auto entry = directories_[file].find(name);  // none if the index lies
    if (name == kHead && entry != directories_[file].end()) {
      PHALANX_RETURN_IF_ERROR(check_tied_head(file, entry->second));
      continue;
    }
    if (is_of_the_computation(name, config_)) {
      return unimplemented(file_names_[file] + ": tensor \"" + name.substr(0, 256) +
                           "\": expected none of this name in what config.json describes, a model "
                           "of model_type \"" +
                           config_.model_type +
                           "\", found one: another model would be computed without it");
    }
    if (unused_.count++ == 0) {
      unused_.first = name;
    }
  }
  return ok();
}

void Checkpoint::keep(const WeightSpec& spec, const Placed& placed) {
  const auto inserted = weights_.emplace(spec.name, placed).first;
  inserted->second.tensor.name = inserted->first;
}

Status Checkpoint::open_folder(FileSource& files) {
  if (files.has(kAdapterName)) {
    // Transformers puts it upon weights that lie beside it, others do not.
    return unimplemented(files.describe(kAdapterName) +
                         ": expected the folder of a whole model, found an adapter: adapters are "
                         "not supported; merge it, or remove this file where that was done");
  }
  PHALANX_TRY(config_, read_config(files));
  PHALANX_TRY(generation_, read_generation(files, config_));
  PHALANX_RETURN_IF_ERROR(open_files(files));
  for (const WeightSpec& spec : required_weights(config_)) {
    PHALANX_RETURN_IF_ERROR(place(spec));
  }
  return check_unused();
}

Result<Checkpoint> Checkpoint::open(FileSource& files) {
  Checkpoint checkpoint;
  const std::string gguf = files.gguf_name();
  PHALANX_RETURN_IF_ERROR(gguf.empty() ? checkpoint.open_folder(files)
                                       : checkpoint.open_gguf(files, gguf));
  Fingerprint hash;
  for (const WeightSpec& spec : required_weights(checkpoint.config_)) {
    const Placed& placed = checkpoint.weights_.find(spec.name)->second;
    hash.add_text(spec.name).add(spec.rows).add(spec.columns);
    hash.add(static_cast<std::uint64_t>(placed.tensor.type)).add(placed.file).add(placed.offset);
  }
  for (const auto& file : checkpoint.files_) {
    hash.add(file->bytes().size());
  }
  checkpoint.structure_hash_ = hash.add(hash_of(checkpoint.config_)).value();
  return checkpoint;
}

const WeightTensor& Checkpoint::weight(std::string_view name) const {
  const auto found = weights_.find(name);
  PHALANX_CHECK(found != weights_.end(), "a weight that the architecture does not have");
  return found->second.tensor;
}

std::uint64_t Checkpoint::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& file : files_) {
    bytes += file->bytes().size();
  }
  return bytes;
}

void Checkpoint::done_with(std::string_view name) const {
  const auto found = weights_.find(name);
  PHALANX_CHECK(found != weights_.end(), "a weight that the architecture does not have");
  const Placed& placed = found->second;
  files_[placed.file]->done_with(placed.offset, placed.tensor.bytes.size());
}

}  // namespace phalanx::checkpoint
