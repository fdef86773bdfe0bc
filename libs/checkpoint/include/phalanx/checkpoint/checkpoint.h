// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/checkpoint/file_source.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/gguf/tensor_type.h"
#include "phalanx/tensor/half.h"

namespace phalanx::checkpoint {

// A tensor of the checkpoint where it lies in its file. Row-major; rows × columns, a vector has one
// row. The bytes need not be aligned.
struct WeightTensor {
  std::string_view name;
  gguf::TensorType type = gguf::TensorType::kBF16;  // one that can be decoded
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::span<const std::byte> bytes;
  // 0, or head_dim: within each head, row (or element of a vector) i and i + head_dim/2 lie in the
  // file as neighbours 2i and 2i + 1. Reading gives them back the order of Hugging Face.
  std::uint32_t interleaved_head = 0;
  // Of the whole matrix: each scale of a group is the nearest fp32 to that of the file times this.
  float scale = 1.0F;

  // Copies row `row`, columns [first, first + out.size()), as bf16: bf16 unchanged, everything else
  // decoded to fp32 (gguf/tensor_type.h; code times scale where there is one of the matrix) and
  // rounded to nearest even. Needs a few KB of stack.
  void read_bf16(std::uint64_t row, std::uint64_t first, std::span<tensor::Bf16> out) const;

  // The codes of row `row`, columns [first, first + out.codes.size()), and their scales and minima.
  // Needs a few KB of stack.
  // Requires: a type with codes (format_of_codes); `first` and the number of codes are multiples of
  //           16, and there is a scale and a minimum for 16 of them; of 64, where there are
  //           superscales.
  void read_codes(std::uint64_t row, std::uint64_t first, const gguf::CodeSpans& out) const;
};

// Name and shape of a weight that an architecture needs.
struct WeightSpec {
  std::string name;
  std::uint64_t rows = 0;  // 0 = a vector of `columns`
  std::uint64_t columns = 0;
};

// The weights of `config`, in a fixed order.
[[nodiscard]] std::vector<WeightSpec> required_weights(const ModelConfig& config);

// The format that holds every code, scale and minimum of a type in the fewest bytes; none for types
// without codes.
[[nodiscard]] std::optional<kernels::WeightFormat> format_of_codes(gguf::TensorType type);

// The same codes with scales of one level; a format that has no other as it is.
[[nodiscard]] kernels::WeightFormat in_one_level(kernels::WeightFormat format);

// Tensors of a Hugging Face folder that the architecture does not need and that are no known
// buffers: a sign that config.json is not that of the weights.
struct UnusedTensors {
  std::size_t count = 0;
  std::string first;  // by name

  // "3 tensors of the model not used, the first: NAME"; empty if there is none.
  [[nodiscard]] std::string text() const;
};

// What a model is read from, either
// - a Hugging Face folder: config.json, generation_config.json (may be absent), and
//   model.safetensors or model.safetensors.index.json with its shards; of the tensors that the
//   architecture does not need, those of its layers are refused, as below, and others, such as
//   layers beyond them, are ignored, and counted by unused(); or
// - a GGUF file, or all files of a split one; a tensor that the architecture does not have is
//   refused, because it would change what the model computes.
// Every tensor that the architecture needs was found with its shape and a readable type.
//
// Ownership: keeps the files open.
// Threads: const access from many at once; done_with() too, for different tensors.
class Checkpoint {
 public:
  // Reads config.json and generation_config.json, or the metadata and directory of the GGUF files.
  //
  // Errors: kNotFound, kInvalidArgument, kUnimplemented as parse_config; for a GGUF file also
  //         kDataLoss
  [[nodiscard]] static Result<ModelConfig> read_config(FileSource& files);
  [[nodiscard]] static Result<GenerationDefaults> read_generation(FileSource& files,
                                                                  const ModelConfig& config);

  // Errors: as read_config; kNotFound       a weight file or a tensor is missing
  //                         kDataLoss       a file is truncated or contradicts itself; a shape or
  //                                         dtype is not the expected one (tensor, expected, found)
  //                         kUnimplemented  a tensor, or an adapter, that would change what is
  //                                         computed, or would for some readers
  [[nodiscard]] static Result<Checkpoint> open(FileSource& files);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const GenerationDefaults& generation() const { return generation_; }

  // A weight named in required_weights(config()).
  [[nodiscard]] const WeightTensor& weight(std::string_view name) const;

  // Fingerprint of the configuration and of the name, dtype, shape and place of every needed
  // tensor: cheap, for matching an arena with a folder. It does not cover the weights themselves;
  // the arena header has a fingerprint that does.
  [[nodiscard]] std::uint64_t structure_hash() const { return structure_hash_; }

  // Bytes of all files with weights, which are mapped at the same time.
  [[nodiscard]] std::uint64_t file_bytes() const;

  // What `quantization`, one of step::quantization_choices(), asks for: the format of that name for
  // every matrix, or stored_formats().
  [[nodiscard]] WeightFormats formats_for(std::string_view quantization) const;

  // The formats that the files have already: that of format_of_codes() for each matrix, where every
  // matrix of the layers has one and no leaf of a product divides a group of scales; else kBf16 for
  // all matrices of the layers. Embedding and head stand for themselves. Where a leaf divides a
  // superblock, in_one_level() of it.
  [[nodiscard]] WeightFormats stored_formats() const;

  // What makes formats_for(quantization) hold matrices of the layers as kBf16 that the files have
  // the codes of, as a note for people: the first matrix without codes, or the width of a leaf.
  // Empty: there are none, or another format was asked for.
  [[nodiscard]] std::string codes_left(std::string_view quantization) const;

  [[nodiscard]] const UnusedTensors& unused() const { return unused_; }

  // The pages of a weight are not read again.
  void done_with(std::string_view name) const;

 private:
  struct Placed {
    WeightTensor tensor;
    std::size_t file = 0;
    std::size_t offset = 0;
  };

  Status open_folder(FileSource& files);
  Status open_files(FileSource& files);
  Status open_shard(FileSource& files, const std::string& name);
  Status place(const WeightSpec& spec);
  [[nodiscard]] Status check_tied_head(std::size_t file, const SafetensorsEntry& entry) const;
  Status check_unused();
  Status open_gguf(FileSource& files, const std::string& name);
  void keep(const WeightSpec& spec, const Placed& placed);

  ModelConfig config_;
  GenerationDefaults generation_;
  std::vector<std::unique_ptr<FileBytes>> files_;
  std::vector<SafetensorsDirectory> directories_;            // one per file
  std::vector<std::string> file_names_;                      // for messages
  std::map<std::string, std::size_t, std::less<>> file_of_;  // tensor → file
  std::map<std::string, Placed, std::less<>> weights_;
  UnusedTensors unused_;
  std::uint64_t structure_hash_ = 0;
};

}  // namespace phalanx::checkpoint
