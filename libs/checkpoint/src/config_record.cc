// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/config_record.h"

#include <bit>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace phalanx::checkpoint {
namespace {

constexpr char kFirstFormat = 'a' - 1;

// The formats of the layers, a letter for each matrix: there may be a thousand layers.
template <typename Archive>
void layer_formats(Archive& archive, const std::vector<LayerFormats>& layers) {
  std::string letters;
  for (const LayerFormats& layer : layers) {
    for (const kernels::WeightFormat format : layer.each()) {
      letters.push_back(static_cast<char>(kFirstFormat + static_cast<int>(format)));
    }
  }
  archive.text("format_layers", letters);
}
// What is no format is told by the fingerprint, and by the kernels.
template <typename Archive>
void layer_formats(Archive& archive, std::vector<LayerFormats>& layers) {
  std::string letters;
  archive.text("format_layers", letters);
  const auto format = [&](std::size_t at) {
    return static_cast<kernels::WeightFormat>(letters[at] - kFirstFormat);
  };
  layers.clear();
  for (std::size_t i = 0; i + 7 <= letters.size(); i += 7) {
    layers.push_back({format(i),
                      format(i + 1),
                      format(i + 2),
                      format(i + 3),
                      format(i + 4),
                      format(i + 5),
                      format(i + 6)});
  }
}

// Every field, in the order of the record. What the record says at the end, the fingerprint of the
// configuration, tells a field that is missing here.
template <typename Archive, typename Config>
void fields(Archive& archive, Config& config) {
  archive.text("model_type", config.model_type);
  archive.number("layers", config.layers);
  archive.number("hidden", config.hidden);
  archive.number("heads", config.heads);
  archive.number("kv_heads", config.kv_heads);
  archive.number("head_dim", config.head_dim);
  archive.number("intermediate", config.intermediate);
  archive.number("vocab", config.vocab);
  archive.number("max_position", config.max_position);
  archive.number("sliding_window", config.sliding_window);
  archive.number("attention_chunk", config.attention_chunk);
  archive.number("rms_norm_eps", config.rms_norm_eps);
  archive.number("rope_head_dim", config.rope.head_dim);
  archive.number("rope_theta", config.rope.theta);
  archive.number("rope_scaling", config.rope.scaling);
  archive.number("rope_factor", config.rope.factor);
  archive.number("rope_low_freq_factor", config.rope.low_freq_factor);
  archive.number("rope_high_freq_factor", config.rope.high_freq_factor);
  archive.number("rope_original_max", config.rope.original_max_position_embeddings);
  archive.number("rope_beta_fast", config.rope.beta_fast);
  archive.number("rope_beta_slow", config.rope.beta_slow);
  archive.number("rope_attention_factor", config.rope.attention_factor);
  archive.list("rope_divisors", config.rope.divisors);
  archive.number("tied_head", config.tied_head);
  archive.number("qk_norm", config.qk_norm);
  archive.number("qkv_bias", config.qkv_bias);
  archive.number("output_bias", config.output_bias);
  archive.number("mlp_bias", config.mlp_bias);
  layer_formats(archive, config.formats.layers);
  archive.number("format_embedding", config.formats.embedding);
  archive.number("format_head", config.formats.head);
  archive.list("eos", config.eos);
}

template <typename Value>
std::uint64_t bits_of(Value value) {
  if constexpr (std::same_as<Value, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else if constexpr (std::same_as<Value, float>) {
    return std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::signed_integral<Value>) {
    return static_cast<std::make_unsigned_t<Value>>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

// The value of these bits; none if they are more than it has.
template <typename Value>
std::optional<Value> value_of(std::uint64_t bits) {
  Value value{};
  if constexpr (std::same_as<Value, double>) {
    value = std::bit_cast<double>(bits);
  } else if constexpr (std::same_as<Value, float>) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::same_as<Value, bool>) {
    value = bits != 0;
  } else {
    value = static_cast<Value>(bits);
  }
  return bits_of(value) == bits ? std::optional<Value>(value) : std::nullopt;
}

class Writer {
 public:
  void text(std::string_view name, const std::string& value) {
    line(name, std::to_string(value.size()) + ":" + value);
  }
  template <typename Value>
  void number(std::string_view name, const Value& value) {
    line(name, std::to_string(bits_of(value)));
  }
  template <typename Value>
  void list(std::string_view name, const std::vector<Value>& values) {
    number(name, static_cast<std::uint64_t>(values.size()));
    for (const Value& value : values) {
      number(name, value);
    }
  }
  [[nodiscard]] std::string take() && { return std::move(record_); }

 private:
  void line(std::string_view name, const std::string& value) {
    record_.append(name).append("=").append(value).append("\n");
  }
  std::string record_;
};

class Reader {
 public:
  explicit Reader(std::string_view record) : rest_(record) {}

  void text(std::string_view name, std::string& value) {
    std::uint64_t size = 0;
    if (!key(name) || !digits(&size) || !skip(':') || size > rest_.size()) {
      return fail(name);
    }
    value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    if (!skip('\n')) {
      fail(name);
    }
  }
  template <typename Value>
  void number(std::string_view name, Value& value) {
    std::uint64_t bits = 0;
    if (!key(name) || !digits(&bits) || !skip('\n')) {
      return fail(name);
    }
    const std::optional<Value> read = value_of<Value>(bits);
    if (!read) {
      return fail(name);
    }
    value = *read;
  }
  template <typename Value>
  void list(std::string_view name, std::vector<Value>& values) {
    std::uint64_t count = 0;
    number(name, count);
    for (std::uint64_t i = 0; i < count && failed_.empty(); ++i) {
      Value value{};
      number(name, value);
      values.push_back(value);
    }
  }
  [[nodiscard]] const std::string& failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  [[nodiscard]] bool skip(char expected) {
    const bool found = !rest_.empty() && rest_.front() == expected;
    rest_.remove_prefix(found ? 1 : 0);
    return found;
  }
  [[nodiscard]] bool key(std::string_view name) {
    if (!failed_.empty() || !rest_.starts_with(name)) {
      return false;
    }
    rest_.remove_prefix(name.size());
    return skip('=');
  }
  [[nodiscard]] bool digits(std::uint64_t* value) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return error == std::errc();
  }
  void fail(std::string_view name) {
    if (failed_.empty()) {
      failed_ = name;
    }
  }

  std::string_view rest_;
  std::string failed_;
};

}  // namespace

std::string to_record(const ModelConfig& config) {
  Writer writer;
  fields(writer, config);
  writer.number("hash", hash_of(config));
  return std::move(writer).take();
}

Result<ModelConfig> from_record(std::string_view record) {
  Reader reader(record);
  ModelConfig config;
  fields(reader, config);
  std::uint64_t hash = 0;
  reader.number("hash", hash);
  if (!reader.failed().empty() || !reader.at_end() || config.formats.layers.empty() ||
      hash != hash_of(config)) {
    return invalid_argument(
        "record of a model's configuration: expected one of this version, found another at '" +
        (reader.failed().empty() ? "hash" : reader.failed()) + "'");
  }
  return config;
}

}  // namespace phalanx::checkpoint
