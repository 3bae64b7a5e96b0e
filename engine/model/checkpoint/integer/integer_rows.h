// SPDX-License-Identifier: Apache-2.0
// One quantised weight in host memory, and its rows as FP32 or as codes. Immutable after Load; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/page_buffer.h"
#include "engine/model/checkpoint/coded_rows.h"
#include "engine/model/checkpoint/integer/integer_weight.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class IntegerRows {
 public:
  // Reads all tensors of the weight. DATA_LOSS; RESOURCE_EXHAUSTED; INVALID_ARGUMENT names tensor, element and value of
  // a scale that is not finite or a group index out of range. weight and source outlive this object.
  static absl::StatusOr<IntegerRows> Load(const TensorSource& source, const IntegerWeight& weight);

  // Rows [first, first + count) of the weight, [count, columns]; each element is one FP32 product, rounded once.
  void Dequantize(int64_t first, int64_t count, float* out) const;
  // The codes of the same rows. REQUIRES: traits are those of DescribeCodes.
  void ReadCodes(const kernels::CodeTraits& traits, int64_t first, int64_t count, CodedRows* out) const;

 private:
  static constexpr int64_t kRowsAtOnce = 16;  // whose codes share cache lines where a word holds those of many rows

  explicit IntegerRows(const IntegerWeight& weight) : weight_(&weight) {}
  absl::Status ReadScales(const TensorSource& source);
  absl::Status ReadNestedScales(const TensorSource& source, std::vector<float>* values) const;
  absl::Status ReadZeros(const TensorSource& source);
  absl::Status FillTable(const TensorSource& source);
  // Codes of `count` <= kRowsAtOnce rows, [count, columns].
  void Codes(int64_t first, int64_t count, uint8_t* codes) const;

  const IntegerWeight* weight_;
  PageBuffer codes_;                // as stored
  std::array<float, 256> table_{};  // of a code
  std::vector<float> scales_;       // [rows, groups]
  std::vector<float> zeros_;        // [rows, groups], in the unit of the table; empty: none
  std::vector<int32_t> group_of_;   // [columns]; empty: column / group
};

}  // namespace dunlin::engine
