// SPDX-License-Identifier: Apache-2.0
#include "engine/request/image_positions.h"

#include <algorithm>

namespace dunlin::engine {

int32_t ShiftOf(const PromptRows::Span& span) {
  if (span.image_columns == 0) return 0;
  return span.count - std::max(span.count / span.image_columns, span.image_columns);
}

int32_t PositionShift(const PromptRows& rows, int32_t index) {
  int32_t shift = 0;
  for (const PromptRows::Span& span : rows.spans) {
    if (span.first + span.count > index) break;
    shift += ShiftOf(span);
  }
  return shift;
}

}  // namespace dunlin::engine
