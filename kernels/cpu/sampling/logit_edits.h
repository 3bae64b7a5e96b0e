// SPDX-License-Identifier: Apache-2.0
// Applies a row's edit lists to its logits. Pure, any thread.
#pragma once

#include <cstdint>

#include "kernels/api/sampling.h"

namespace dunlin::kernels::cpu {

// Whether ApplyEdits would change anything.
bool HasEdits(const EditLists& edits);

// Edits logits [vocab_size] in place. words: SampleParams::words.
void ApplyEdits(const SampleRow& row, const uint32_t* words, int32_t vocab_size, float* logits);

}  // namespace dunlin::kernels::cpu
