// SPDX-License-Identifier: Apache-2.0
#include "engine/base/bounded_read.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace dunlin::engine {
namespace {

TEST(ReadAtMost, TakesAsManyBytesAsTheLimit) {
  for (const size_t bytes : {0UL, 1UL, 65535UL, 65536UL, 65537UL, 200000UL}) {
    const std::string text(bytes, 'x');
    std::istringstream in(text);
    const absl::StatusOr<std::string> read = ReadAtMost(bytes, &in);
    ASSERT_TRUE(read.ok()) << bytes << ": " << read.status();
    EXPECT_EQ(*read, text);
  }
}

TEST(ReadAtMost, RefusesOneByteMore) {
  std::istringstream in(std::string(65537, 'x'));
  EXPECT_EQ(ReadAtMost(65536, &in).status(), absl::InvalidArgumentError("has more than 65536 bytes"));
}

TEST(ReadAtMost, SaysWhatCannotBeRead) {
  for (const char* path : {"/", "/nonexistent"}) {
    std::ifstream in(path);
    EXPECT_EQ(ReadAtMost(10, &in).status(), absl::DataLossError("cannot be read")) << path;
  }
}

}  // namespace
}  // namespace dunlin::engine
