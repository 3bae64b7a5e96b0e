// SPDX-License-Identifier: Apache-2.0
// Positions of rotations where tokens of images rotate by row and column (RotarySpec::axes). The tokens of an image of
// R rows and C columns have those of its first token, p, plus their row and their column; the token after them has
// p + max(R, C). So a token's position is its index in the prompt less a shift, which the images before it add up to;
// what is by index (pages, windows, causal attention) stays so. Pure.
// Source: transformers 5.24, models/qwen2_vl, qwen2_5_vl, qwen3_vl and qwen3_5, get_rope_index.
#pragma once

#include <cstdint>

#include "engine/request/prompt_rows.h"

namespace dunlin::engine {

// What a span takes off the positions of all tokens after it, >= 0; 0 of one without image_columns.
int32_t ShiftOf(const PromptRows::Span& span);

// The sum of the spans that end at or before a token's index; inside an image that of its first token.
int32_t PositionShift(const PromptRows& rows, int32_t index);

}  // namespace dunlin::engine
