// SPDX-License-Identifier: Apache-2.0
// Which modules of a checkpoint low-rank adapters may change, from the list of its tensors. Pure.
#pragma once

#include <string>
#include <vector>

#include "engine/model/load/model_directory.h"
#include "engine/model/spec/adaptable.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

// The modules of a decoder whose whole matrices lie in Projections; none of an encoder. prefix: of the checkpoint's
// tensors. parts: with the names that the checkpoint has.
AdaptableModules ListAdaptable(const ParsedModel& parsed, const std::string& prefix,
                               const std::vector<WeightPart>& parts);

}  // namespace dunlin::engine
