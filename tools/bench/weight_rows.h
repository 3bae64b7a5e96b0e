// SPDX-License-Identifier: Apache-2.0
// The values of a packed weight, read back through the device's row gather.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace dunlin::tools::bench {

// [rows.size(), in_features]. REQUIRES: every row is one of the weight's.
absl::StatusOr<std::vector<float>> ReadWeightRows(kernels::Device* device, const kernels::PackedWeight& weight,
                                                  std::span<const int32_t> rows);

// All rows: [out_features, in_features].
absl::StatusOr<std::vector<float>> UnpackWeight(kernels::Device* device, const kernels::PackedWeight& weight);

}  // namespace dunlin::tools::bench
