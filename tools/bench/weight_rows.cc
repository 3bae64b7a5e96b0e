// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/weight_rows.h"

#include <algorithm>
#include <numeric>

#include "tools/bench/device_memory.h"

namespace dunlin::tools::bench {

absl::StatusOr<std::vector<float>> ReadWeightRows(kernels::Device* device, const kernels::PackedWeight& weight,
                                                  std::span<const int32_t> rows) {
  constexpr size_t kRowsAtOnce = 512;
  const auto columns = static_cast<size_t>(weight.in_features);
  auto staged = DeviceMemory::Allocate(device, kRowsAtOnce * columns * sizeof(float), "rows of a weight");
  if (!staged.ok()) return staged.status();
  auto ids = DeviceMemory::Allocate(device, kRowsAtOnce * sizeof(int32_t), "ids of rows");
  if (!ids.ok()) return ids.status();
  std::vector<float> values(rows.size() * columns);
  for (size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, rows.size() - first);
    const kernels::GatherRowsParams params{.weight = &weight,
                                           .ids = static_cast<const int32_t*>(ids->data()),
                                           .out = staged->floats(),
                                           .num_rows = static_cast<int32_t>(count),
                                           .accumulate = false};
    absl::Status status = ids->Write(rows.data() + first, count * sizeof(int32_t));
    if (status.ok()) status = StatusOf(device->ops->gather_rows(device->context, params), "gather rows");
    if (status.ok()) status = staged->Read(values.data() + first * columns, count * columns * sizeof(float));
    if (!status.ok()) return status;
  }
  return values;
}

absl::StatusOr<std::vector<float>> UnpackWeight(kernels::Device* device, const kernels::PackedWeight& weight) {
  std::vector<int32_t> rows(static_cast<size_t>(weight.out_features));
  std::iota(rows.begin(), rows.end(), 0);
  return ReadWeightRows(device, weight, rows);
}

}  // namespace dunlin::tools::bench
