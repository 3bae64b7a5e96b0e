// SPDX-License-Identifier: Apache-2.0
// Plain loops that the compiler vectorises; the same sums on every variant.
#include "kernels/cpu/gemm/group_sums.h"

#include <algorithm>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/api/group_rounding.h"
#include "kernels/cpu/activation/activation_layout.h"
#include "kernels/cpu/activation/round_columns.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kTaskElements = 1 << 14;
constexpr int32_t kParts = 8;  // partial sums of a group

float Widen(float value) {
  return value;
}
float Widen(uint16_t bits) {
  return Bf16ToFloat(bits);
}

template <int32_t kGroup, typename Element>
float SumOfGroup(const Element* elements) {
  float parts[kParts] = {};
  for (int32_t i = 0; i < kGroup; i += kParts) {
    for (int32_t p = 0; p < kParts; ++p) parts[p] += Widen(elements[i + p]);
  }
  return ((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7]));
}

template <int32_t kGroup, typename Element>
void SumRow(std::byte* row, int64_t columns) {
  const auto* elements = reinterpret_cast<const Element*>(row);
  auto* sums = reinterpret_cast<float*>(row + GroupSumOffset(columns));
  const int64_t whole = columns / kGroup * kGroup;
  for (int64_t k = 0; k < whole; k += kGroup) *sums++ = SumOfGroup<kGroup>(elements + k);
  if (whole == columns) return;
  Element rest[kGroup] = {};
  std::copy(elements + whole, elements + columns, rest);
  *sums = SumOfGroup<kGroup>(rest);
}

template <int32_t kGroup>
auto RowSummer(bool halves) {
  return halves ? SumRow<kGroup, uint16_t> : SumRow<kGroup, float>;
}

// Calls body(row) for every row, several rows a task.
template <typename Body>
void ForEachRow(DeviceContext* context, int64_t columns, int32_t num_rows, const Body& body) {
  const int64_t rows_per_task = std::max<int64_t>(1, kTaskElements / columns);
  context->pool.Run((num_rows + rows_per_task - 1) / rows_per_task, [&](int64_t task, int) {
    const int64_t end = std::min<int64_t>(num_rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) body(row);
  });
}

}  // namespace

void WriteGroupSums(DeviceContext* context, const Activation& activation, int32_t group, int32_t num_rows) {
  const int64_t columns = activation.columns;
  const bool halves = ActivationElement(context->kernels, activation.precision) == sizeof(uint16_t);
  const auto sum_row = group == kWeightGroup ? RowSummer<kWeightGroup>(halves) : RowSummer<kSmallestGroup>(halves);
  ForEachRow(context, columns, num_rows, [&](int64_t row) { sum_row(ActivationRow(activation, row), columns); });
}

void RoundInputs(DeviceContext* context, const Activation& activation, WeightFormat format, int32_t num_rows) {
  const RoundInputsKernel* round = context->kernels.round_inputs;
  ForEachRow(context, activation.columns, num_rows, [&](int64_t row) {
    round(ActivationRow(activation, row), activation.columns, format, CodedRow(activation, row));
  });
}

}  // namespace dunlin::kernels::cpu
