// SPDX-License-Identifier: Apache-2.0
// GGUF's block formats as integer codes with scales, for products of the codes themselves: scale * code - minimum has
// the bits of the dequantised values (ggml_blocks.h). One row per type that has such codes. Pure.
// Source: github.com/ggml-org/ggml, src/ggml-common.h (layouts).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/weight_codes.h"

namespace dunlin::engine {

// Where the parts of a row go; those that the type does not have are null.
struct CodePointers {
  int8_t* codes;
  uint16_t* factors;
  int8_t* scales;
  uint16_t* min_factors;
  int8_t* minimums;
};

struct GgmlCodes {
  uint32_t id;                                                                 // GgmlType's
  kernels::CodeTraits traits;                                                  // block: the elements of a block
  void (*unpack)(const uint8_t* blocks, size_t num_blocks, CodePointers out);  // no alignment is required of `blocks`
};

// The row of that type, or null. Rows have static lifetime.
const GgmlCodes* FindGgmlCodes(uint32_t id);

}  // namespace dunlin::engine
