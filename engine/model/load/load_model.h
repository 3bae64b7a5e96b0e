// SPDX-License-Identifier: Apache-2.0
// From a ModelSource to a Model in device memory.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/load/model_source.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/model.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Reads, checks and packs. Files are read with pread, converted once and closed; the model does not refer to them
// afterwards. Errors: NOT_FOUND (a missing file or tensor), INVALID_ARGUMENT (a malformed or unsupported file; the
// message names file, field, value and limit), RESOURCE_EXHAUSTED (memory), DATA_LOSS (a file changed while it was
// read), INTERNAL (the device failed), CANCELLED (*stop became true, which is looked at every 16 MiB or so; null:
// never); of ModelPart::kImageEncoder NOT_FOUND, too, where the model has none, and FAILED_PRECONDITION for ranks and
// precisions in which one is not served. device outlives the model.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSource& source, kernels::Device* device,
                                                 const std::atomic<bool>* stop = nullptr);

// The same for the devices of source.num_ranks ranks, rank 0's first. FAILED_PRECONDITION, with the reason, where the
// model is not divided.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSource& source,
                                                 const std::vector<kernels::Device*>& devices,
                                                 const std::atomic<bool>* stop = nullptr);

// The second half of LoadModel, with its errors: packs the weights of what OpenModelSource(source, true) gave.
// REQUIRES: source.precisions are one or more, distinct, as a configuration's are.
absl::StatusOr<std::unique_ptr<Model>> LoadOpenedModel(const OpenedModel& opened, const ModelSource& source,
                                                       const std::vector<kernels::Device*>& devices,
                                                       const std::atomic<bool>* stop);

}  // namespace dunlin::engine
