// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: for each parser and each way in, a function that takes any bytes (targets.inc lists them). A function
// returns 0, keeps nothing of its input, and ends the process where the product breaks a promise (DUNLIN_FUZZ_CHECK);
// sanitizers do the same for what is undefined. Linked into libFuzzer's programs and into fuzz_corpus_test alike.
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dunlin::fuzz {

#define DUNLIN_FUZZ_TARGET(name, function) int function(const uint8_t* data, size_t size);
#include "tests/fuzz/targets.inc"
#undef DUNLIN_FUZZ_TARGET

struct FuzzTarget {
  const char* name;  // of its program, fuzz_<name>, and of its folder of corpus/
  int (*run)(const uint8_t* data, size_t size);
};

inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Prints where and what, and aborts.
[[noreturn]] void Fail(const char* file, int line, std::string_view what);

#define DUNLIN_FUZZ_CHECK(condition, what)                            \
  do {                                                                \
    if (!(condition)) ::dunlin::fuzz::Fail(__FILE__, __LINE__, what); \
  } while (false)

}  // namespace dunlin::fuzz
