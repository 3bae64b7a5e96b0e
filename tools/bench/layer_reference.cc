// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/layer_reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tools/bench/device_memory.h"
#include "tools/bench/weight_rows.h"

namespace dunlin::tools::bench {
namespace {

using engine::Module;

absl::StatusOr<std::vector<float>> ToHost(kernels::Device* device, const float* values, int32_t count) {
  std::vector<float> host(values == nullptr ? 0 : static_cast<size_t>(count));
  if (host.empty()) return host;
  absl::Status status = ReadDevice(device, host.data(), values, host.size() * sizeof(float));
  if (!status.ok()) return status;
  return host;
}

double Gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
constexpr double kGeluSlopeMax = 1.13;

}  // namespace

absl::StatusOr<LayerReference> LayerReference::Create(const engine::Model& model, engine::Precision precision) {
  LayerReference reference;
  reference.config_ = model.config();
  kernels::Device* device = model.device();
  const engine::LayerWeights& layer = model.weights(precision).layers[0];
  const std::pair<const engine::LinearWeights*, Matrix*> matrices[] = {{&layer.qkv, &reference.qkv_},
                                                                       {&layer.attention_out, &reference.out_},
                                                                       {&layer.mlp_up, &reference.up_},
                                                                       {&layer.mlp_down, &reference.down_}};
  for (const auto& [linear, matrix] : matrices) {
    matrix->out_features = static_cast<int32_t>(linear->weight.out_features);
    matrix->in_features = static_cast<int32_t>(linear->weight.in_features);
    auto weight = UnpackWeight(device, linear->weight);
    if (!weight.ok()) return weight.status();
    matrix->weight = *std::move(weight);
    auto bias = ToHost(device, linear->bias, matrix->out_features);
    if (!bias.ok()) return bias.status();
    matrix->bias = *std::move(bias);
  }
  const std::pair<const engine::NormWeights*, Norm*> norms[] = {{&layer.attention_norm, &reference.attention_norm_},
                                                                {&layer.mlp_norm, &reference.mlp_norm_}};
  for (const auto& [weights, norm] : norms) {
    auto weight = ToHost(device, weights->weight, reference.config_.hidden_dim);
    if (!weight.ok()) return weight.status();
    norm->weight = *std::move(weight);
    auto bias = ToHost(device, weights->bias, reference.config_.hidden_dim);
    if (!bias.ok()) return bias.status();
    norm->bias = *std::move(bias);
  }
  return reference;
}

LayerReference::Values LayerReference::Plain(std::span<const float> row) {
  Values values{{row.begin(), row.end()}, {}};
  for (const float x : row) values.magnitude.push_back(std::abs(static_cast<double>(x)));
  return values;
}

LayerReference::Values LayerReference::Normed(const Norm& norm, const Values& in) const {
  const auto n = static_cast<double>(in.exact.size());
  const double mean = std::accumulate(in.exact.begin(), in.exact.end(), 0.0) / n;
  double variance = 0.0;
  for (const double x : in.exact) variance += (x - mean) * (x - mean) / n;
  const double factor = 1.0 / std::sqrt(variance + static_cast<double>(config_.norm.epsilon));
  Values out = in;
  for (size_t i = 0; i < out.exact.size(); ++i) {
    const double weight = norm.weight[i];
    out.exact[i] = (in.exact[i] - mean) * factor * weight + (norm.bias.empty() ? 0.0 : norm.bias[i]);
    out.magnitude[i] = (in.magnitude[i] + std::abs(mean)) * factor * std::abs(weight);
  }
  return out;
}

LayerReference::Values LayerReference::Multiply(const Matrix& matrix, const Values& in, int32_t first, int32_t count) {
  Values out;
  for (int32_t n = first; n < first + count; ++n) {
    const float* weight = matrix.weight.data() + static_cast<size_t>(n) * in.exact.size();
    double sum = matrix.bias.empty() ? 0.0 : matrix.bias[static_cast<size_t>(n)];
    double magnitude = std::abs(sum);
    for (size_t k = 0; k < in.exact.size(); ++k) {
      const auto w = static_cast<double>(weight[k]);
      sum += in.exact[k] * w;
      magnitude += in.magnitude[k] * std::abs(w);
    }
    out.exact.push_back(sum);
    out.magnitude.push_back(magnitude);
  }
  return out;
}

void LayerReference::Add(const Values& term, Values* sum) {
  for (size_t i = 0; i < sum->exact.size(); ++i) {
    sum->exact[i] += term.exact[i];
    sum->magnitude[i] += term.magnitude[i];
  }
}

LayerReference::Values LayerReference::QkvInput(std::span<const float> hidden, int32_t position, bool normed) const {
  const auto width = static_cast<size_t>(config_.hidden_dim);
  const Values row = Plain(hidden.subspan(static_cast<size_t>(position) * width, width));
  return normed ? Normed(attention_norm_, row) : row;
}

// The heads' outputs of one row, before the output projection.
LayerReference::Values LayerReference::Attention(std::span<const float> hidden, int32_t position, bool normed) const {
  const int32_t width = config_.attention.num_heads * config_.attention.head_dim;
  const Values query = Multiply(qkv_, QkvInput(hidden, position, normed), 0, width);
  std::vector<Values> kv;
  for (int32_t j = 0; j <= position; ++j) {
    kv.push_back(Multiply(qkv_, QkvInput(hidden, j, normed), width, 2 * width));
  }
  Values out{std::vector<double>(static_cast<size_t>(width)), std::vector<double>(static_cast<size_t>(width))};
  for (int32_t head = 0; head < config_.attention.num_heads; ++head) {
    const auto first = static_cast<size_t>(head * config_.attention.head_dim);
    const size_t last = first + static_cast<size_t>(config_.attention.head_dim);
    std::vector<double> weights;
    double widening = 1.0;  // an error of a score moves its weight
    for (const Values& row : kv) {
      double score = 0.0;
      double terms = 0.0;
      for (size_t d = first; d < last; ++d) {
        score += query.exact[d] * row.exact[d];
        terms += query.magnitude[d] * std::abs(row.exact[d]) + std::abs(query.exact[d]) * row.magnitude[d];
      }
      weights.push_back(score * static_cast<double>(config_.attention.scale));
      widening = std::max(widening, 1.0 + 2.0 * terms * static_cast<double>(config_.attention.scale));
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (size_t j = 0; j < kv.size(); ++j) {
      for (size_t d = first; d < last; ++d) {
        const size_t value = static_cast<size_t>(width) + d;
        out.exact[d] += weights[j] / sum * kv[j].exact[value];
        out.magnitude[d] += weights[j] / sum * (kv[j].magnitude[value] + widening * std::abs(kv[j].exact[value]));
      }
    }
  }
  return out;
}

LayerReference::Values LayerReference::Mlp(const Values& in) const {
  Values up = Multiply(up_, Normed(mlp_norm_, in));
  for (size_t i = 0; i < up.exact.size(); ++i) {
    up.exact[i] = Gelu(up.exact[i]);
    up.magnitude[i] = std::abs(up.exact[i]) + kGeluSlopeMax * up.magnitude[i];
  }
  Values out = Multiply(down_, up);
  Add(in, &out);
  return out;
}

std::vector<Sample> LayerReference::Row(Module module, std::span<const float> hidden, int32_t position) const {
  const bool normed = module != Module::kLinear && module != Module::kAttentionBlock;
  Values out;
  switch (module) {
    case Module::kLinear:
    case Module::kLayerNormLinear:
      out = Multiply(qkv_, QkvInput(hidden, position, normed));
      break;
    case Module::kLayerNormMlp:
      out = Mlp(QkvInput(hidden, position, false));
      break;
    case Module::kAttentionBlock:
      out = Multiply(out_, Attention(hidden, position, normed));
      break;
    case Module::kTransformerLayer:
      out = Multiply(out_, Attention(hidden, position, normed));
      Add(QkvInput(hidden, position, false), &out);
      out = Mlp(out);
      break;
  }
  std::vector<Sample> samples;
  for (size_t i = 0; i < out.exact.size(); ++i) samples.push_back({0.0, out.exact[i], out.magnitude[i]});
  return samples;
}

}  // namespace dunlin::tools::bench
