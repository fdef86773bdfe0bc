// SPDX-License-Identifier: Apache-2.0
// The part of a checkpoint that reads GGUF files.
#include <set>
#include <utility>

#include "phalanx/checkpoint/checkpoint.h"

#include "gguf_config.h"
#include "gguf_model.h"
#include "gguf_names.h"

namespace phalanx::checkpoint {
namespace {

// Tensors of other duties: read with the configuration, or derived from it by old converters.
bool is_no_weight(std::string_view name) {
  return name == "rope_freqs.weight" ||
         (name.starts_with("blk.") && name.ends_with(".attn_rot_embd.weight"));
}

// llama.cpp rotates neighbours in files of this architecture, so its converter reorders the rows.
bool is_interleaved(const ModelConfig& config, std::string_view weight) {
  return config.model_type == "llama" && (weight.find(".q_proj.") != std::string_view::npos ||
                                          weight.find(".k_proj.") != std::string_view::npos);
}

std::string about(const GgufModel& model, const GgufModel::Place& place) {
  return model.name_of(place.file) + ": tensor \"" + std::string(place.tensor->name) + "\": ";
}

Result<WeightTensor> tensor_of(const GgufModel& model,
                               const GgufModel::Place& place,
                               const WeightSpec& spec,
                               bool interleaved,
                               std::uint32_t head_dim) {
  const gguf::Tensor& found = *place.tensor;
  const gguf::TypeTraits& traits = gguf::traits_of(found.type);
  std::vector<std::uint64_t> shape = {spec.rows, spec.columns};
  if (spec.rows == 0) {
    shape.erase(shape.begin());
  }
  if (found.shape != shape) {
    return data_loss(about(model, place) + "expected shape " + shape_text(shape) + ", found " +
                     shape_text(found.shape));
  }
  if (!traits.decodable) {
    return unimplemented(about(model, place) + "type " + std::string(traits.name) +
                         " is not supported; supported are " + gguf::decodable_types());
  }
  WeightTensor tensor;
  tensor.type = found.type;
  tensor.rows = spec.rows == 0 ? 1 : spec.rows;
  tensor.columns = spec.columns;
  tensor.bytes = found.bytes;
  tensor.interleaved_head = interleaved ? head_dim : 0;
  if (tensor.rows == 1 && interleaved && traits.block_elements != 1) {
    return unimplemented(about(model, place) + "expected F32, F16 or BF16 for a bias, found " +
                         std::string(traits.name));
  }
  return tensor;
}

// The name of a matrix with another ending: "blk.3.attn_q.weight" → "blk.3.attn_q.scale".
std::string beside(const std::string& stored, std::string_view ending) {
  return stored.substr(0, stored.rfind('.') + 1).append(ending);
}

// What llama.cpp's converter writes beside a matrix of NVFP4 that ModelOpt or compressed-tensors
// has made: a scale for all of it. 1 where there is none.
Result<float> scale_of(const GgufModel& model, const std::string& name, gguf::TensorType type) {
  constexpr float kLeast = 0x1p-100F;  // so that no scale of a group becomes a denormal
  constexpr float kMost = 0x1p100F;
  const GgufModel::Place place = model.find(name);
  if (place.tensor == nullptr) {
    return 1.0F;
  }
  const gguf::Tensor& found = *place.tensor;
  if (type != gguf::TensorType::kNVFP4) {
    return unimplemented(about(model, place) +
                         "expected a scale of a matrix beside NVFP4 only, found "
                         "one beside " +
                         std::string(gguf::traits_of(type).name));
  }
  if (found.type != gguf::TensorType::kF32 || found.elements() != 1) {
    return data_loss(about(model, place) + "expected 1 F32, found " +
                     std::to_string(found.elements()) + " " +
                     std::string(gguf::traits_of(found.type).name));
  }
  float scale = 0.0F;
  gguf::decode(found.type, found.bytes, std::span(&scale, 1));
  if (!(scale >= kLeast && scale <= kMost)) {
    return data_loss(about(model, place) + "expected a number from 2^-100 to 2^100, found " +
                     gguf::number_text(static_cast<double>(scale)));
  }
  return scale;
}

Status refuse_others(const GgufModel& model, const std::set<std::string, std::less<>>& used) {
  for (const auto& [name, place] : model.tensors()) {
    if (!used.contains(name) && !is_no_weight(name)) {
      return unimplemented(about(model, place) +
                           "expected none of this name in this architecture, found one: what it "
                           "changes in the model is not supported");
    }
  }
  return ok();
}

}  // namespace

Status Checkpoint::open_gguf(FileSource& files, const std::string& name) {
  PHALANX_TRY(GgufModel model, GgufModel::open(files, name));
  PHALANX_TRY(config_, read_gguf_config(model));
  PHALANX_TRY(generation_, read_gguf_generation(model, config_));
  std::set<std::string, std::less<>> used;
  for (const WeightSpec& spec : required_weights(config_)) {
    const std::string stored = gguf_name_of(spec.name);
    const GgufModel::Place place = model.find(stored);
    if (place.tensor == nullptr) {
      return not_found(model.name_of(0) + ": tensor \"" + stored + "\": expected one for " +
                       spec.name + ", found none");
    }
    Placed placed;
    PHALANX_TRY(
        placed.tensor,
        tensor_of(model, place, spec, is_interleaved(config_, spec.name), config_.head_dim));
    if (spec.rows != 0 && spec.name != "model.embed_tokens.weight") {
      const std::string scale = beside(stored, "scale");
      PHALANX_TRY(placed.tensor.scale, scale_of(model, scale, placed.tensor.type));
      used.insert(scale);
      // Activations are coded by themselves here.
      used.insert(beside(stored, "input_scale"));
    }
    placed.file = place.file;
    placed.offset = place.tensor->offset;
    keep(spec, placed);
    used.insert(stored);
  }
  PHALANX_RETURN_IF_ERROR(refuse_others(model, used));
  files_ = std::move(model).take_bytes();
  return ok();
}

}  // namespace phalanx::checkpoint
