// SPDX-License-Identifier: Apache-2.0
// The resident precisions of models whose models[].precisions is empty.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"

namespace dunlin::server {

// Fills every empty list: bf16, or the precision of the checkpoint's own integer codes where its device, devices[i],
// multiplies them and models[].allowed has it; so for draft models, without regard to models[].allowed. Errors: of a
// checkpoint that cannot be opened, as engine::InspectModel.
absl::StatusOr<Config> WithDefaultPrecisions(Config config, const std::vector<kernels::Device*>& devices);

}  // namespace dunlin::server
