// SPDX-License-Identifier: Apache-2.0
// libFuzzer's program of one target; DUNLIN_FUZZ_FUNCTION names its function.
#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return dunlin::fuzz::DUNLIN_FUZZ_FUNCTION(data, size);
}
