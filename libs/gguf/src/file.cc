// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "phalanx/base/utf8.h"

#include "cursor.h"
#include "value_reader.h"

namespace phalanx::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr const char* kAlignmentKey = "general.alignment";
// The least that one of them takes: a one-byte key with a one-byte value; a one-byte name, no
// dimensions, type and offset.
constexpr std::size_t kLeastKeyBytes = 8 + 1 + 4 + 1;
constexpr std::size_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;

Error about_tensor(std::string_view name, const std::string& rest) {
  return data_loss("tensor \"" + std::string(name) + "\": " + rest);
}

// A key or a tensor's name.
Result<std::string_view> read_name(Cursor& cursor, std::size_t most, const char* what) {
  PHALANX_TRY(const std::span<const std::byte> bytes, cursor.sized(what));
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (name.empty() || name.size() > most) {
    return data_loss(std::string("expected ") + what + " of 1 to " + std::to_string(most) +
                     " bytes, found " + std::to_string(name.size()));
  }
  if (!is_valid_utf8(name) || name.find('\0') != std::string_view::npos) {
    return data_loss(std::string("expected ") + what +
                     " in UTF-8 without zero bytes, found other bytes");
  }
  return name;
}

std::string place(const char* what, std::uint64_t index, std::uint64_t count) {
  return std::string(what) + " " + std::to_string(index + 1) + " of " + std::to_string(count);
}

// Bytes of `tensor`, whose shape may be anything.
Result<std::uint64_t> data_bytes(const Tensor& tensor, const TypeTraits& traits) {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : tensor.shape) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (size == 0 || size > kMost / elements) {
      return about_tensor(
          tensor.name,
          "expected dimensions from 1 with a product below 2^63, found " + std::to_string(size));
    }
    elements *= size;
  }
  const std::uint64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (columns % traits.block_elements != 0) {
    return about_tensor(tensor.name,
                        "expected rows of a multiple of " + std::to_string(traits.block_elements) +
                            " elements, as " + std::string(traits.name) + " asks, found " +
                            std::to_string(columns));
  }
  const std::uint64_t blocks = elements / traits.block_elements;
  if (blocks > std::numeric_limits<std::uint64_t>::max() / traits.block_bytes) {
    return about_tensor(tensor.name,
                        "expected at most 2^64 bytes, found " + std::to_string(blocks) +
                            " blocks of " + std::to_string(traits.block_bytes) + " bytes");
  }
  return blocks * traits.block_bytes;
}

}  // namespace

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

  Result<File> read() {
    PHALANX_TRY(const Counts counts, read_counts());
    PHALANX_TRY(const std::uint64_t checked,
                cursor_.fits(counts.tensors, kLeastTensorBytes, "tensors"));
    PHALANX_RETURN_IF_ERROR(read_keys(counts.keys));
    PHALANX_RETURN_IF_ERROR(read_alignment());
    for (std::uint64_t i = 0; i < checked; ++i) {
      PHALANX_RETURN_IF_ERROR(read_tensor(i, checked));
    }
    PHALANX_RETURN_IF_ERROR(place_data());
    PHALANX_RETURN_IF_ERROR(check_overlap());
    return std::move(file_);
  }

  Result<Metadata> read_head() {
    PHALANX_TRY(const Counts counts, read_counts());
    PHALANX_RETURN_IF_ERROR(read_keys(counts.keys));
    if (cursor_.left() != 0) {
      return data_loss("expected the end behind the metadata, found " +
                       std::to_string(cursor_.left()) + " bytes more");
    }
    return std::move(file_.metadata_);
  }

 private:
  struct Counts {
    std::uint64_t tensors = 0;
    std::uint64_t keys = 0;
  };

  Result<Counts> read_counts() {
    PHALANX_RETURN_IF_ERROR(read_version());
    Counts counts;
    PHALANX_TRY(counts.tensors, cursor_.number<std::uint64_t>("the tensor count"));
    PHALANX_TRY(counts.keys, cursor_.count(kLeastKeyBytes, "keys"));
    if (counts.tensors > kMaxTensors || counts.keys > kMaxKeys) {
      return data_loss("expected at most " + std::to_string(kMaxTensors) + " tensors and " +
                       std::to_string(kMaxKeys) + " keys, found " + std::to_string(counts.tensors) +
                       " and " + std::to_string(counts.keys));
    }
    return counts;
  }

  Status read_version() {
    if (!has_magic(bytes_)) {
      return data_loss("expected a file that begins with \"GGUF\", found other bytes");
    }
    PHALANX_RETURN_IF_ERROR(cursor_.take(kMagic.size(), "magic"));
    PHALANX_TRY(file_.version_, cursor_.number<std::uint32_t>("the version"));
    if (file_.version_ == 2 || file_.version_ == 3) {
      return ok();
    }
    const bool big_endian = file_.version_ != 0 && file_.version_ % (1U << 16) == 0;
    return unimplemented("GGUF version: expected 2 or 3, found " + std::to_string(file_.version_) +
                         (big_endian ? ", as a big-endian file has it: not supported" : ""));
  }

  Status read_keys(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      PHALANX_RETURN_IF_ERROR(read_key(i, count));
    }
    file_.metadata_bytes_ = cursor_.position();
    return ok();
  }

  Status read_key(std::uint64_t index, std::uint64_t count) {
    auto key = read_name(cursor_, kMaxKeyBytes, "a key");
    if (!key) {
      return std::move(key).error().with(place("key", index, count));
    }
    auto value = read_value(cursor_);
    if (!value) {
      return std::move(value).error().with("key \"" + std::string(key->substr(0, 256)) + "\"");
    }
    if (!file_.metadata_.add(*key, *value)) {
      return data_loss("key \"" + std::string(key->substr(0, 256)) +
                       "\": expected once, found twice");
    }
    return ok();
  }

  Status read_alignment() {
    if (!file_.metadata_.has(kAlignmentKey)) {
      return ok();
    }
    const auto value = file_.metadata_.integer(kAlignmentKey, 1, kMaxAlignment);
    if (!value) {
      return data_loss(value.error().message());
    }
    alignment_ = static_cast<std::uint32_t>(*value);
    if (!std::has_single_bit(alignment_)) {
      return data_loss(std::string("key \"") + kAlignmentKey +
                       "\": expected a power of two, found " + std::to_string(alignment_));
    }
    return ok();
  }

  Status read_tensor(std::uint64_t index, std::uint64_t count) {
    auto name = read_name(cursor_, kMaxTensorNameBytes, "a tensor name");
    if (!name) {
      return std::move(name).error().with(place("tensor", index, count));
    }
    if (Status status = read_entry(*name); !status) {
      return std::move(status).error().with(place("tensor", index, count));
    }
    return ok();
  }

  // What follows a tensor's name; its offset stays relative to the data, which is not found yet.
  Status read_entry(std::string_view name) {
    Tensor tensor;
    tensor.name = name;
    PHALANX_TRY(const std::uint32_t dimensions, cursor_.number<std::uint32_t>("dimensions"));
    if (dimensions > kMaxDimensions) {
      return about_tensor(name,
                          "expected at most " + std::to_string(kMaxDimensions) +
                              " dimensions, found " + std::to_string(dimensions));
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      PHALANX_TRY(const std::uint64_t size, cursor_.number<std::uint64_t>("a dimension"));
      tensor.shape.insert(tensor.shape.begin(), size);
    }
    PHALANX_TRY(const std::uint32_t type, cursor_.number<std::uint32_t>("a tensor type"));
    PHALANX_TRY(const std::uint64_t offset, cursor_.number<std::uint64_t>("an offset"));
    const TypeTraits* traits = find_type(type);
    if (traits == nullptr) {
      return unimplemented(
          "tensor \"" + std::string(name) + "\": expected a known tensor type, found number " +
          std::to_string(type) + "; types that can be loaded: " + decodable_types());
    }
    tensor.type = traits->type;
    PHALANX_TRY(const std::uint64_t bytes, data_bytes(tensor, *traits));
    if (!file_.index_.emplace(name, file_.tensors_.size()).second) {
      return about_tensor(name, "expected once, found twice");
    }
    file_.tensors_.push_back(std::move(tensor));
    extents_.push_back({offset, bytes});
    return ok();
  }

  Status place_data() {
    const std::size_t header = cursor_.position();
    const std::size_t padding = (alignment_ - header % alignment_) % alignment_;
    const std::size_t data = padding > cursor_.left() ? bytes_.size() : header + padding;
    const std::uint64_t data_size = bytes_.size() - data;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      Tensor& tensor = file_.tensors_[i];
      const auto [offset, bytes] = extents_[i];
      if (offset % alignment_ != 0) {
        return about_tensor(tensor.name,
                            "expected an offset that is a multiple of " +
                                std::to_string(alignment_) + ", found " + std::to_string(offset));
      }
      if (offset > data_size || bytes > data_size - offset) {
        return about_tensor(tensor.name,
                            "expected " + std::to_string(bytes) + " bytes at offset " +
                                std::to_string(offset) + " of the data, found " +
                                std::to_string(data_size) +
                                " bytes of data in all: truncated, or an offset that lies" +
                                other_layout(i, data_size));
      }
      tensor.offset = data + static_cast<std::size_t>(offset);
      tensor.bytes = bytes_.subspan(tensor.offset, static_cast<std::size_t>(bytes));
    }
    return ok();
  }

  // A fork of llama.cpp gave the number of Q2_0 to blocks that take fewer bytes. What to add to a
  // message about a tensor that has no room among others, or before `end`: nothing, if its room is
  // not for those blocks.
  [[nodiscard]] std::string other_layout(std::size_t index, std::uint64_t end) const {
    constexpr std::uint64_t kElements = 128;
    constexpr std::uint64_t kBytes = 34;
    const Tensor& tensor = file_.tensors_[index];
    const std::uint64_t offset = extents_[index].offset;
    for (const Extent& other : extents_) {
      end = other.offset > offset ? std::min(end, other.offset) : end;
    }
    const std::uint64_t room = end - std::min(end, offset);
    const std::uint64_t bytes = tensor.elements() / kElements * kBytes;
    if (tensor.type != TensorType::kQ2_0 || tensor.elements() % kElements != 0 || room < bytes ||
        room - bytes >= alignment_) {
      return {};
    }
    return "; tensor \"" + std::string(tensor.name) +
           "\" has the size of another layout of Q2_0, 34 bytes for 128 elements, which is not "
           "supported: expected 18 bytes for 64";
  }

  [[nodiscard]] Status check_overlap() const {
    std::vector<const Tensor*> by_offset;
    by_offset.reserve(file_.tensors_.size());
    for (const Tensor& tensor : file_.tensors_) {
      by_offset.push_back(&tensor);
    }
    std::sort(by_offset.begin(), by_offset.end(), [](const Tensor* a, const Tensor* b) {
      return a->offset < b->offset;
    });
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
      const Tensor& before = *by_offset[i - 1];
      if (before.offset + before.bytes.size() > by_offset[i]->offset) {
        return about_tensor(
            by_offset[i]->name,
            "expected bytes of its own, found an overlap with tensor \"" +
                std::string(before.name) + "\"" +
                other_layout(static_cast<std::size_t>(&before - file_.tensors_.data()),
                             bytes_.size()));
      }
    }
    return ok();
  }

  struct Extent {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  File file_;
  std::uint32_t alignment_ = kDefaultAlignment;
  std::vector<Extent> extents_;  // of the tensors, relative to the data
};

std::uint64_t Tensor::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) {
    product *= size;
  }
  return product;
}

bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<File> File::parse(std::span<const std::byte> bytes) {
  return Reader(bytes).read();
}

Result<Metadata> parse_metadata(std::span<const std::byte> head) {
  return Reader(head).read_head();
}

const Tensor* File::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace phalanx::gguf
