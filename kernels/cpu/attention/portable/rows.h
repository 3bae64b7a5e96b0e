// SPDX-License-Identifier: Apache-2.0
// Query and output rows of the portable variant (tile_ops.h gives their meaning).
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::portable {

void LoadQuery(const QueryRowArgs& args);
void StoreOutput(const OutputRowArgs& args);

}  // namespace dunlin::kernels::cpu::portable
