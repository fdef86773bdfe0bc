// SPDX-License-Identifier: Apache-2.0
// A GGUF file from anywhere: whatever it says, every value and tensor that is accepted lies inside
// it, and every getter answers or refuses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "phalanx/gguf/file.h"
#include "phalanx/gguf/split.h"

namespace {

using phalanx::gguf::File;

void use_metadata(const phalanx::gguf::Metadata& metadata) {
  for (const auto& [key, value] : metadata.values()) {
    if (phalanx::gguf::describe(value).size() > 200) {
      std::abort();
    }
    const auto texts = metadata.texts(key);
    if (texts && texts->size() != metadata.array_size(key).value()) {
      std::abort();
    }
    const bool answered = metadata.text(key) || metadata.number(key) || metadata.boolean(key) ||
                          metadata.integer(key, -100, 100) || metadata.floats(key) ||
                          metadata.integers(key);
    if (answered && texts) {
      std::abort();
    }
  }
  if (const auto keys = phalanx::gguf::split_keys(metadata); keys) {
    const auto names = phalanx::gguf::split_names("m-00001-of-00002.gguf", *keys);
    if (names && names->size() != keys->count) {
      std::abort();
    }
  }
}

void use_tensors(const File& file, std::span<const std::byte> bytes) {
  for (const auto& tensor : file.tensors()) {
    if (tensor.offset > bytes.size() || tensor.bytes.size() > bytes.size() - tensor.offset ||
        file.find(tensor.name) != &tensor) {
      std::abort();
    }
    const auto& traits = phalanx::gguf::traits_of(tensor.type);
    if (tensor.bytes.size() / traits.block_bytes * traits.block_elements != tensor.elements()) {
      std::abort();
    }
    if (traits.decodable) {
      std::vector<float> values(tensor.elements());
      phalanx::gguf::decode(tensor.type, tensor.bytes, values);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = File::parse(bytes);
  if (file) {
    use_metadata(file->metadata());
    use_tensors(*file, bytes);
    const auto head = phalanx::gguf::parse_metadata(bytes.first(file->metadata_bytes()));
    if (!head || head->values().size() != file->metadata().values().size()) {
      std::abort();
    }
  }
  if (const auto head = phalanx::gguf::parse_metadata(bytes)) {
    use_metadata(*head);
  }
  return 0;
}
