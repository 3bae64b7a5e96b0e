// SPDX-License-Identifier: Apache-2.0
// A dense attention problem with synthetic tensors and every feature: runs it on a device and gives each row's
// reference. Keys and values that no row sees, and bias and mask where a row does not look, are poison.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/reference.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {

// Numbers of one dtype, kept as floats and as the bytes a kernel reads.
class Tensor {
 public:
  explicit Tensor(DType dtype) : dtype_(dtype) {}
  void Push(float value);
  const float* At(int64_t element) const { return numbers_.data() + element; }
  const void* data() const {
    return dtype_ == DType::kF32 ? static_cast<const void*>(numbers_.data()) : halves_.data();
  }
  size_t size() const { return numbers_.size(); }
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  std::vector<float> numbers_;
  std::vector<uint16_t> halves_;
};

// Numbers of one dtype as floats.
std::vector<float> Widen(DType dtype, const std::byte* memory, size_t bytes);

enum class BiasShape : uint8_t { kNone, kPerQuery, kPerHead, kOneRow };

struct DenseShape {
  DType dtype;
  int32_t batch;
  int32_t num_kv_heads;
  int32_t group;
  int32_t q_len;
  int32_t kv_len;
  int32_t head_dim;
  int32_t v_head_dim = 0;  // 0: head_dim
  bool causal = false;
  CausalAlignment alignment = CausalAlignment::kTopLeft;
  int32_t window = 0;
  float softcap = 0.0F;
  float scale = 0.25F;
  bool alibi = false;
  BiasShape bias = BiasShape::kNone;
  DType bias_dtype = DType::kF32;
  bool mask = false;

  int32_t num_heads() const { return num_kv_heads * group; }
  int32_t value_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
};

class DenseProblem {
 public:
  explicit DenseProblem(const DenseShape& shape);

  AttentionTraits traits() const;
  // What runs the problem: all but the workspace. Pointers are valid while the problem lives.
  DenseAttentionParams Params(AttentionBackend backend, void* out) const;
  size_t out_bytes() const;
  size_t bias_bytes() const { return bias_.size() * SizeOf(bias_.dtype()); }
  size_t mask_bytes() const { return mask_.size(); }
  // On the CPU: [batch, num_heads, q_len, v_head_dim] as floats. Fails the test on a bad status or a write past a
  // buffer.
  std::vector<float> Run(AttentionBackend backend, const std::string& variant, int threads) const;
  // Valid while the problem lives.
  ReferenceRow Row(int32_t batch, int32_t head, int32_t token) const;
  // Element of a row in what Run returned.
  int64_t OutputStart(int32_t batch, int32_t head, int32_t token) const;

 private:
  int32_t Position(int32_t token) const;  // among the keys
  int32_t Start(int32_t token) const;
  int32_t Limit(int32_t token) const;
  bool AnyRowSees(int32_t key) const;
  void FillBias();
  void FillMask();
  int64_t BiasRow(int32_t batch, int32_t head, int32_t token) const;

  DenseShape shape_;
  Tensor q_, k_, v_, bias_;
  std::vector<uint8_t> mask_;
  std::vector<float> slopes_;
};

}  // namespace dunlin::kernels::testing
