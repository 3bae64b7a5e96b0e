// SPDX-License-Identifier: Apache-2.0
// Synthetic dense problems.
#include "tests/kernels/attention/dense_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dunlin::kernels::testing {
std::vector<float> Widen(DType dtype, const std::byte* memory, size_t bytes) {
  std::vector<float> out(bytes / SizeOf(dtype));
  for (size_t i = 0; i < out.size(); ++i) {
    if (dtype == DType::kF32) out[i] = reinterpret_cast<const float*>(memory)[i];
    if (dtype == DType::kF16) out[i] = Fp16ToFloat(reinterpret_cast<const uint16_t*>(memory)[i]);
    if (dtype == DType::kBF16) out[i] = Bf16ToFloat(reinterpret_cast<const uint16_t*>(memory)[i]);
  }
  return out;
}

void Tensor::Push(float value) {
  numbers_.push_back(RoundTo(dtype_, value));
  if (dtype_ == DType::kF16) halves_.push_back(FloatToFp16(value));
  if (dtype_ == DType::kBF16) halves_.push_back(FloatToBf16(value));
}

DenseProblem::DenseProblem(const DenseShape& shape)
    : shape_(shape), q_(shape.dtype), k_(shape.dtype), v_(shape.dtype), bias_(shape.bias_dtype) {
  for (int32_t b = 0; b < shape.batch; ++b) {
    const uint64_t seed = 1 + static_cast<uint64_t>(b);
    for (int32_t h = 0; h < shape.num_heads(); ++h) {
      for (int32_t t = 0; t < shape.q_len; ++t) {
        for (int32_t d = 0; d < shape.head_dim; ++d) q_.Push(2.0F * Synthetic(seed, Kind::kQuery, t, h, d));
      }
    }
    for (int32_t h = 0; h < shape.num_kv_heads; ++h) {
      for (int32_t j = 0; j < shape.kv_len; ++j) {
        const bool poison = !AnyRowSees(j);
        for (int32_t d = 0; d < shape.head_dim; ++d) k_.Push(poison ? NAN : Synthetic(seed, Kind::kKey, j, h, d));
        for (int32_t d = 0; d < shape.value_dim(); ++d) v_.Push(poison ? NAN : Synthetic(seed, Kind::kValue, j, h, d));
      }
    }
  }
  for (int32_t h = 0; shape.alibi && h < shape.num_heads(); ++h)
    slopes_.push_back(std::exp2(-0.5F * static_cast<float>(h + 3)));
  if (shape.bias != BiasShape::kNone) FillBias();
  if (shape.mask) FillMask();
}

int32_t DenseProblem::Position(int32_t token) const {
  return token + (shape_.alignment == CausalAlignment::kTopLeft ? 0 : shape_.kv_len - shape_.q_len);
}

int32_t DenseProblem::Limit(int32_t token) const {
  return shape_.causal ? std::clamp(Position(token) + 1, 0, shape_.kv_len) : shape_.kv_len;
}

int32_t DenseProblem::Start(int32_t token) const {
  return shape_.window == 0 ? 0 : std::clamp(Position(token) - shape_.window + 1, 0, Limit(token));
}

bool DenseProblem::AnyRowSees(int32_t key) const {
  return shape_.q_len > 0 && Start(0) <= key && key < Limit(shape_.q_len - 1);
}

// Rows of the bias that differ: one per query and head, one per head, or one for all.
int64_t DenseProblem::BiasRow(int32_t batch, int32_t head, int32_t token) const {
  switch (shape_.bias) {
    case BiasShape::kPerQuery:
      return (int64_t{batch} * shape_.num_heads() + head) * shape_.q_len + token;
    case BiasShape::kPerHead:
      return head;
    default:
      return 0;
  }
}

void DenseProblem::FillBias() {
  const int64_t rows = shape_.bias == BiasShape::kPerQuery  ? int64_t{shape_.batch} * shape_.num_heads() * shape_.q_len
                       : shape_.bias == BiasShape::kPerHead ? shape_.num_heads()
                                                            : 1;
  for (int64_t row = 0; row < rows; ++row) {
    const auto token = shape_.bias == BiasShape::kPerQuery ? static_cast<int32_t>(row % shape_.q_len) : -1;
    for (int32_t j = 0; j < shape_.kv_len; ++j) {
      const float value = 2.0F * Synthetic(77, Kind::kKey, row, 0, j);
      const bool unseen = token >= 0 && (j < Start(token) || j >= Limit(token));
      // The last row of a problem is masked whole, as is one key in eleven.
      const bool hidden = j % 11 == 5 || token == shape_.q_len - 1;
      bias_.Push(unseen ? NAN : hidden ? -INFINITY : value);
    }
  }
}

void DenseProblem::FillMask() {
  for (int64_t row = 0; row < int64_t{shape_.batch} * shape_.q_len; ++row) {
    for (int32_t j = 0; j < shape_.kv_len; ++j) {
      const bool seen = row % shape_.q_len != 1 && Synthetic(88, Kind::kValue, row, 0, j) > -0.3F;
      mask_.push_back(seen ? static_cast<uint8_t>(1 + j % 200) : uint8_t{0});
    }
  }
}

AttentionTraits DenseProblem::traits() const {
  return {.dtype = shape_.dtype,
          .head_dim = shape_.head_dim,
          .num_heads = shape_.num_heads(),
          .num_kv_heads = shape_.num_kv_heads,
          .window = shape_.window,
          .softcap = shape_.softcap,
          .causal = shape_.causal,
          .v_head_dim = shape_.v_head_dim,
          .bias = shape_.bias != BiasShape::kNone,
          .mask = shape_.mask};
}

DenseAttentionParams DenseProblem::Params(AttentionBackend backend, void* out) const {
  DenseAttentionParams params{};
  params.backend = backend;
  params.dtype = shape_.dtype;
  params.q = q_.data();
  params.k = k_.data();
  params.v = v_.data();
  params.out = out;
  params.batch = shape_.batch;
  params.num_heads = shape_.num_heads();
  params.num_kv_heads = shape_.num_kv_heads;
  params.q_len = shape_.q_len;
  params.kv_len = shape_.kv_len;
  params.head_dim = shape_.head_dim;
  params.causal = shape_.causal;
  params.alignment = shape_.alignment;
  params.scale = shape_.scale;
  params.v_head_dim = shape_.v_head_dim;
  params.window = shape_.window;
  params.softcap = shape_.softcap;
  params.alibi_slopes = shape_.alibi ? slopes_.data() : nullptr;
  const int64_t row = shape_.kv_len;
  if (bias_.size() > 0) {
    params.bias = {.data = bias_.data(), .dtype = bias_.dtype()};
    if (shape_.bias == BiasShape::kPerQuery) {
      params.bias.query_stride = row;
      params.bias.head_stride = row * shape_.q_len;
      params.bias.batch_stride = params.bias.head_stride * shape_.num_heads();
    } else if (shape_.bias == BiasShape::kPerHead) {
      params.bias.head_stride = row;
    }
  }
  if (!mask_.empty()) params.mask = {.data = mask_.data(), .batch_stride = row * shape_.q_len, .query_stride = row};
  return params;
}

std::vector<float> DenseProblem::Run(AttentionBackend backend, const std::string& variant, int threads) const {
  Device& device = CpuDevice(variant, threads);
  PoisonedMemory out(out_bytes());
  DenseAttentionParams params = Params(backend, out.data());
  PoisonedMemory workspace(device.ops->dense_attention_workspace(device.context, params));
  params.workspace = workspace.data();
  params.workspace_bytes = workspace.size();
  const KernelStatus status = device.ops->dense_attention(device.context, params);
  EXPECT_EQ(status, KernelStatus::kOk) << Name(status) << " " << Describe(backend, shape_.dtype, variant);
  EXPECT_TRUE(workspace.Intact() && out.Intact()) << Describe(backend, shape_.dtype, variant);
  return Widen(shape_.dtype, out.data(), out_bytes());
}

size_t DenseProblem::out_bytes() const {
  return static_cast<size_t>(OutputStart(shape_.batch, 0, 0)) * SizeOf(shape_.dtype);
}

ReferenceRow DenseProblem::Row(int32_t batch, int32_t head, int32_t token) const {
  const int64_t kv_row = (int64_t{batch} * shape_.num_kv_heads + head / shape_.group) * shape_.kv_len;
  const int64_t q_row = (int64_t{batch} * shape_.num_heads() + head) * shape_.q_len + token;
  return {.q = q_.At(q_row * shape_.head_dim),
          .keys = k_.At(kv_row * shape_.head_dim),
          .values = v_.At(kv_row * shape_.value_dim()),
          .limit = Limit(token),
          .head_dim = shape_.head_dim,
          .scale = shape_.scale,
          .begin = Start(token),
          .softcap = shape_.softcap,
          .v_head_dim = shape_.v_head_dim,
          .slope = shape_.alibi ? slopes_[static_cast<size_t>(head)] : 0.0F,
          .position = Position(token),
          .bias = bias_.size() > 0 ? bias_.At(BiasRow(batch, head, token) * shape_.kv_len) : nullptr,
          .mask = mask_.empty() ? nullptr : mask_.data() + (int64_t{batch} * shape_.q_len + token) * shape_.kv_len};
}

int64_t DenseProblem::OutputStart(int32_t batch, int32_t head, int32_t token) const {
  return ((int64_t{batch} * shape_.num_heads() + head) * shape_.q_len + token) * shape_.value_dim();
}

}  // namespace dunlin::kernels::testing
