// SPDX-License-Identifier: Apache-2.0
// What the ranks of a divided model have of an adapter: columns of each module's projection, and devices. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/spec/adaptable.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Columns of a projection that a module's rows follow one another in, and where a rank of a divided model has them.
struct Segment {
  int64_t first_column;
  int64_t count;
  int64_t target;
  int32_t rank = 0;
};

// Of all ranks; of a model in one piece, rank 0's.
std::vector<Segment> SegmentsOf(const Model& model, const AdaptableModule& module);

// Whether ranks have memory of their own, each with a copy of first matrices.
bool HasCopies(const Model& model);

// The devices whose memory holds an adapter: the model's or, of ranks with memory of their own, theirs in their order.
std::vector<kernels::Device*> AdapterDevices(const Model& model);

}  // namespace dunlin::engine
