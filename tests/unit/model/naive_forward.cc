// SPDX-License-Identifier: Apache-2.0
#include "naive_forward.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "phalanx/tensor/half.h"

namespace phalanx::model {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

Matrix read(const checkpoint::Checkpoint& checkpoint, const std::string& name) {
  const checkpoint::WeightTensor& weight = checkpoint.weight(name);
  Matrix matrix;
  std::vector<tensor::Bf16> row(weight.columns);
  for (std::uint64_t i = 0; i < weight.rows; ++i) {
    weight.read_bf16(i, 0, row);
    Vector values;
    for (const tensor::Bf16 value : row) {
      values.push_back(static_cast<double>(tensor::to_float(value)));
    }
    matrix.push_back(std::move(values));
  }
  return matrix;
}

Vector times(const Matrix& weight, const Vector& x) {
  Vector out;
  for (const Vector& row : weight) {
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      sum += row[i] * x[i];
    }
    out.push_back(sum);
  }
  return out;
}

Vector norm(const Vector& x, const Vector& gain, double epsilon) {
  double squares = 0;
  for (const double value : x) {
    squares += value * value;
  }
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  Vector out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i] * scale * gain[i];
  }
  return out;
}

struct Rope {
  Vector frequency;
  double factor = 1.0;
};

// Yarn after Peng et al. 2023 and llama3 after its model card, written from the formulas.
Rope rope_of(const checkpoint::ModelConfig& config) {
  const kernels::RopeConfig& rope = config.rope;
  const double dims = config.head_dim;
  Rope result;
  for (std::uint32_t i = 0; i < config.head_dim / 2; ++i) {
    const double base = std::pow(rope.theta, -2.0 * i / dims);
    const double wavelength = 2 * std::numbers::pi / base;
    const double original = rope.original_max_position_embeddings;
    double frequency = base;
    if (rope.scaling == kernels::RopeScaling::kLinear) {
      frequency = base / rope.factor;
    } else if (rope.scaling == kernels::RopeScaling::kLlama3) {
      const double smooth = (original / wavelength - rope.low_freq_factor) /
                            (rope.high_freq_factor - rope.low_freq_factor);
      const double share = std::clamp(smooth, 0.0, 1.0);
      frequency = (1 - share) * base / rope.factor + share * base;
    } else if (rope.scaling == kernels::RopeScaling::kYarn) {
      const auto dimension = [&](double rotations) {
        return dims * std::log(original / (rotations * 2 * std::numbers::pi)) /
               (2 * std::log(rope.theta));
      };
      const double low = std::max(std::floor(dimension(rope.beta_fast)), 0.0);
      double high = std::min(std::ceil(dimension(rope.beta_slow)), dims - 1);
      high = high == low ? high + 0.001 : high;
      const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
      frequency = base / rope.factor * ramp + base * (1 - ramp);
      result.factor = 0.1 * std::log(rope.factor) + 1.0;
    }
    result.frequency.push_back(frequency);
  }
  return result;
}

// Rotates one head in place: element i pairs with element i + half.
void rotate(double* head, const Rope& rope, double position) {
  const std::size_t half = rope.frequency.size();
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = position * rope.frequency[i];
    const double c = std::cos(angle) * rope.factor;
    const double s = std::sin(angle) * rope.factor;
    const double low = head[i];
    const double high = head[i + half];
    head[i] = low * c - high * s;
    head[i + half] = high * c + low * s;
  }
}

// A matrix with the bias of its product, if the checkpoint has one.
struct Product {
  Matrix weight;
  Vector bias;

  [[nodiscard]] Vector of(const Vector& x) const {
    Vector out = times(weight, x);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      out[i] += bias[i];
    }
    return out;
  }
};

Product read_product(const checkpoint::Checkpoint& checkpoint,
                     const std::string& name,
                     bool has_bias) {
  return {read(checkpoint, name + ".weight"),
          has_bias ? read(checkpoint, name + ".bias")[0] : Vector{}};
}

// Queries or keys, which the product gives, with norm (where the model has one) and rotation.
Vector turned(Vector out,
              const Vector& gain,
              const checkpoint::ModelConfig& config,
              const Rope& rope,
              std::size_t position) {
  const std::size_t dim = config.head_dim;
  for (std::size_t head = 0; head < out.size() / dim; ++head) {
    double* values = out.data() + head * dim;
    if (!gain.empty()) {
      const Vector normed =
          norm(Vector(values, values + dim), gain, static_cast<double>(config.rms_norm_eps));
      std::copy(normed.begin(), normed.end(), values);
    }
    rotate(values, rope, static_cast<double>(position));
  }
  return out;
}

// The attention of query head `head` at position `position` over keys and values up to there.
Vector attend(const Matrix& q,
              const Matrix& k,
              const Matrix& v,
              const checkpoint::ModelConfig& config,
              std::size_t head,
              std::size_t position) {
  const std::size_t dim = config.head_dim;
  const std::size_t kv = head / config.heads_per_group();
  Vector score(position + 1);
  for (std::size_t t = 0; t <= position; ++t) {
    for (std::size_t i = 0; i < dim; ++i) {
      score[t] += q[position][head * dim + i] * k[t][kv * dim + i];
    }
    score[t] /= std::sqrt(static_cast<double>(dim));
  }
  const double top = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (double& value : score) {
    value = std::exp(value - top);
    sum += value;
  }
  Vector out(dim);
  for (std::size_t t = 0; t <= position; ++t) {
    for (std::size_t i = 0; i < dim; ++i) {
      out[i] += score[t] / sum * v[t][kv * dim + i];
    }
  }
  return out;
}

void add(Vector& x, const Vector& delta) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] += delta[i];
  }
}

void attention_layer(const checkpoint::Checkpoint& checkpoint,
                     const std::string& prefix,
                     const Rope& rope,
                     Matrix& x) {
  const checkpoint::ModelConfig& config = checkpoint.config();
  const Vector gain = read(checkpoint, prefix + "input_layernorm.weight")[0];
  const bool norms = config.qk_norm;
  const Vector q_gain = norms ? read(checkpoint, prefix + "self_attn.q_norm.weight")[0] : Vector{};
  const Vector k_gain = norms ? read(checkpoint, prefix + "self_attn.k_norm.weight")[0] : Vector{};
  const Product wq = read_product(checkpoint, prefix + "self_attn.q_proj", config.qkv_bias);
  const Product wk = read_product(checkpoint, prefix + "self_attn.k_proj", config.qkv_bias);
  const Product wv = read_product(checkpoint, prefix + "self_attn.v_proj", config.qkv_bias);
  const Product wo = read_product(checkpoint, prefix + "self_attn.o_proj", config.output_bias);
  Matrix q;
  Matrix k;
  Matrix v;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const Vector normed = norm(x[t], gain, static_cast<double>(config.rms_norm_eps));
    q.push_back(turned(wq.of(normed), q_gain, config, rope, t));
    k.push_back(turned(wk.of(normed), k_gain, config, rope, t));
    v.push_back(wv.of(normed));
  }
  for (std::size_t t = 0; t < x.size(); ++t) {
    Vector mixed;
    for (std::size_t head = 0; head < config.heads; ++head) {
      const Vector out = attend(q, k, v, config, head, t);
      mixed.insert(mixed.end(), out.begin(), out.end());
    }
    add(x[t], wo.of(mixed));
  }
}

void mlp_layer(const checkpoint::Checkpoint& checkpoint, const std::string& prefix, Matrix& x) {
  const Vector gain = read(checkpoint, prefix + "post_attention_layernorm.weight")[0];
  const bool bias = checkpoint.config().mlp_bias;
  const Product gate = read_product(checkpoint, prefix + "mlp.gate_proj", bias);
  const Product up = read_product(checkpoint, prefix + "mlp.up_proj", bias);
  const Product down = read_product(checkpoint, prefix + "mlp.down_proj", bias);
  for (Vector& row : x) {
    const Vector normed = norm(row, gain, static_cast<double>(checkpoint.config().rms_norm_eps));
    const Vector g = gate.of(normed);
    Vector u = up.of(normed);
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] *= g[i] / (1 + std::exp(-g[i]));
    }
    add(row, down.of(u));
  }
}

}  // namespace

std::vector<std::vector<double>> naive_forward(const checkpoint::Checkpoint& checkpoint,
                                               const std::vector<TokenId>& tokens) {
  const checkpoint::ModelConfig& config = checkpoint.config();
  const Matrix embedding = read(checkpoint, "model.embed_tokens.weight");
  const Rope rope = rope_of(config);
  Matrix x;
  for (const TokenId token : tokens) {
    x.push_back(embedding[static_cast<std::size_t>(token)]);
  }
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    attention_layer(checkpoint, prefix, rope, x);
    mlp_layer(checkpoint, prefix, x);
  }
  const Vector gain = read(checkpoint, "model.norm.weight")[0];
  const Matrix head = config.tied_head ? embedding : read(checkpoint, "lm_head.weight");
  Matrix logits;
  for (const Vector& row : x) {
    logits.push_back(times(head, norm(row, gain, static_cast<double>(config.rms_norm_eps))));
  }
  return logits;
}

}  // namespace phalanx::model
