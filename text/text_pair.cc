// SPDX-License-Identifier: Apache-2.0
#include "text/text_pair.h"

#include <algorithm>

namespace dunlin::text {

PairLengths TruncatePair(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  const size_t shorter = std::min(first, second);
  if (2 * shorter <= room)
    return first <= second ? PairLengths{first, room - first} : PairLengths{room - second, second};
  // The odd token is the longer one's; of equal ones the second's.
  const size_t half = room / 2;
  return first <= second ? PairLengths{half, room - half} : PairLengths{room - half, half};
}

int32_t AppendPair(const PairFrame& frame, std::span<const engine::TokenId> first,
                   std::span<const engine::TokenId> second, std::vector<engine::TokenId>* tokens) {
  for (const std::span<const engine::TokenId> part :
       {std::span<const engine::TokenId>(frame.prefix), first, std::span<const engine::TokenId>(frame.middle), second,
        std::span<const engine::TokenId>(frame.suffix)}) {
    tokens->insert(tokens->end(), part.begin(), part.end());
  }
  const size_t typed = frame.middle_first < 0
                           ? frame.size() + first.size() + second.size()
                           : frame.prefix.size() + first.size() + static_cast<size_t>(frame.middle_first);
  return static_cast<int32_t>(typed);
}

}  // namespace dunlin::text
