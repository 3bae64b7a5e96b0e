// SPDX-License-Identifier: Apache-2.0
// What a device does not do for a model, found before its weights are read. Any thread.
#pragma once

#include "absl/status/status.h"
#include "engine/model/load/model_source.h"
#include "engine/model/spec/model_config.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// FAILED_PRECONDITION, with the part of the model or the config key, where the device lacks the operations of its
// layers or int8_inputs, where it is not divided, and where linked ranks (kernels/api/rank_links.h) do not exchange
// rows of it; of an encoder of images, where the source divides it or has precisions of fewer than 16 bits. config: of
// the undivided model.
absl::Status CheckSource(const ModelSource& source, const ModelConfig& config, const kernels::DeviceOps& ops);

// Whether an encoder of images is served in a precision: one of 16 bits or more.
bool ServesImages(Precision precision);

}  // namespace dunlin::engine
