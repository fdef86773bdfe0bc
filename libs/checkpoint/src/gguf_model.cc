// SPDX-License-Identifier: Apache-2.0
#include "gguf_model.h"

#include <utility>

#include "phalanx/gguf/split.h"

namespace phalanx::checkpoint {

Result<GgufModel::Part> GgufModel::open_part(FileSource& files, const std::string& name) {
  Part part;
  part.name = files.describe(name);
  PHALANX_TRY(part.bytes, files.open(name));
  auto parsed = gguf::File::parse(part.bytes->bytes());
  if (!parsed) {
    return std::move(parsed).error().with(part.name);
  }
  part.parsed = *std::move(parsed);
  return part;
}

Result<GgufModel> GgufModel::open(FileSource& files, const std::string& name) {
  PHALANX_TRY(Part named, open_part(files, name));
  auto keys = gguf::split_keys(named.parsed.metadata());
  if (!keys) {
    return std::move(keys).error().with(named.name);
  }
  PHALANX_TRY(const std::vector<std::string> names, gguf::split_names(name, *keys));
  GgufModel model;
  model.files_.resize(keys->count);
  model.files_[keys->number] = std::move(named);
  for (std::uint32_t number = 0; number < keys->count; ++number) {
    Part& part = model.files_[number];
    if (number != keys->number) {
      PHALANX_TRY(part, open_part(files, names[number]));
    }
    auto own = gguf::split_keys(part.parsed.metadata());
    if (!own) {
      return std::move(own).error().with(part.name);
    }
    if (own->number != number || own->count != keys->count || own->tensors != keys->tensors) {
      return data_loss(part.name + ": expected file " + std::to_string(number + 1) + " of " +
                       std::to_string(keys->count) + " with " + std::to_string(keys->tensors) +
                       " tensors in all, found file " + std::to_string(own->number + 1) + " of " +
                       std::to_string(own->count) + " with " + std::to_string(own->tensors));
    }
  }
  PHALANX_RETURN_IF_ERROR(model.join(keys->tensors));
  return model;
}

Status GgufModel::join(std::uint64_t expected_tensors) {
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const gguf::Tensor& tensor : files_[file].parsed.tensors()) {
      if (!tensors_.emplace(tensor.name, Place{file, &tensor}).second) {
        return data_loss(files_[file].name + ": tensor \"" + std::string(tensor.name) +
                         "\": expected once, found also in " +
                         files_[tensors_.at(tensor.name).file].name);
      }
    }
  }
  if (files_.size() > 1 && tensors_.size() != expected_tensors) {
    return data_loss(files_.front().name + ": expected " + std::to_string(expected_tensors) +
                     " tensors in the " + std::to_string(files_.size()) + " files, found " +
                     std::to_string(tensors_.size()));
  }
  return ok();
}

GgufModel::Place GgufModel::find(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? Place{} : found->second;
}

std::vector<std::unique_ptr<FileBytes>> GgufModel::take_bytes() && {
  std::vector<std::unique_ptr<FileBytes>> bytes;
  for (Part& part : files_) {
    bytes.push_back(std::move(part.bytes));
  }
  return bytes;
}

}  // namespace phalanx::checkpoint
