// SPDX-License-Identifier: Apache-2.0
// The main binary needs no CUDA library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/elf_file.h"

namespace dunlin::kernels::cuda {
namespace {

TEST(Binary, NeedsNoCudaLibrary) {
  const std::vector<std::string> needed = NeededLibraries(DUNLIN_BINARY);
  ASSERT_THAT(needed, ::testing::Contains(::testing::HasSubstr("libc.so")));
  for (const char* word : {"cuda", "cublas", "nvrtc", "nvidia"}) {
    EXPECT_THAT(needed, ::testing::Not(::testing::Contains(::testing::HasSubstr(word))));
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
