// SPDX-License-Identifier: Apache-2.0
// A checkpoint with matrices of small floats, scaled in groups of a row, as one in which each is a plain tensor:
//   NVFP4  E2M1 codes, two a byte, the first in the low half; an E4M3 scale for 16 columns and an FP32 factor for the
//          matrix. Given as FP32, factor * scale * code, each product rounded, and as codes
//          (kernels/api/weight_codes.h).
//   MXFP4  such codes with a scale for 32 columns that is a power of two (E8M0). Given as BF16, which holds each value,
//          and as codes: a factor for 256 columns, and scales that E4M3 holds. Those of such columns may be a factor of
//          2^17 apart; codes below are rounded to multiples of what that gives.
//   MXFP8  E4M3 codes with such scales. Given as BF16, which holds each value of scales of 2^-124 or more.
// Tensors of module M, all of [rows, ...]: NVFP4 of compressed-tensors has M.weight_packed, weight_scale and
// weight_global_scale, of which the factor is the reciprocal; of ModelOpt M.weight, weight_scale and weight_scale_2.
// MXFP4 has M.weight_packed, MXFP8 M.weight, and weight_scale; MXFP4 of DeepSeek V4, next to FP8 in blocks, M.weight of
// bytes and M.scale. Scales of inputs are left out.
// Sources: compressed-tensors 0.20 (nvfp4, mxfp4, mxfp8 compressors); NVIDIA Model Optimizer, NVFP4QTensor; OCP
// Microscaling Formats 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/derived_tensors.h"

namespace dunlin::engine {

class MicroscaledTensors final : public DerivedTensors {
 public:
  // INVALID_ARGUMENT names the tensor, its shape or dtype, and what it must be; the checkpoint has no such matrix, or
  // one twice; a factor is not finite and above 0.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored);

 private:
  enum class Kind : uint8_t { kNvFp4, kMxFp4, kMxFp8 };
  struct Matrix {
    Kind kind;
    const TensorInfo* scales;
    float factor = 1.0F;  // of kNvFp4
  };
  // Codes and scales of rows as stored.
  struct StoredRows {
    std::vector<std::byte> codes;
    std::vector<std::byte> scales;
  };

  explicit MicroscaledTensors(std::unique_ptr<TensorSource> stored) : DerivedTensors(std::move(stored)) {}
  // What module M is, whose codes are this tensor, and its scales, or none.
  std::optional<Matrix> MatrixOf(const TensorInfo& codes, const std::string& module) const;
  // Of a matrix of these whose codes the tensor holds; OK where it is none.
  absl::Status Add(const TensorInfo& codes);
  absl::StatusOr<float> ReadFactor(const std::string& module, bool reciprocal);
  static int64_t GroupOf(Kind kind) { return kind == Kind::kNvFp4 ? 16 : 32; }
  // INVALID_ARGUMENT names tensor, row and value of a scale that is no number, or with which FP32 does not hold the
  // largest code.
  absl::StatusOr<StoredRows> ReadStored(size_t index, int64_t first_row, int64_t num_rows) const;
  absl::Status CheckScales(const Matrix& matrix, int64_t first_row, const std::vector<std::byte>& scales) const;
  // Values of rows, [num_rows, columns].
  absl::StatusOr<std::vector<float>> Values(size_t index, int64_t first_row, int64_t num_rows) const;

  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  std::optional<kernels::CodeTraits> DerivedCodes(size_t index) const override;
  absl::Status ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  // Factors and E4M3 scales of MXFP4 in place of its scales.
  static void SplitScales(const StoredRows& rows, int64_t groups_of_row, CodedRows* out);
  std::string WhyNoDerivedCodes(size_t index) const override;

  std::vector<Matrix> matrices_;  // of the derived tensors
};

}  // namespace dunlin::engine
