// SPDX-License-Identifier: Apache-2.0
#include "server/process/exit_timer.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace dunlin::server {
namespace {

TEST(ExitTimerDeathTest, EndsAProcessThatIsStuck) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ExitAfter(absl::Seconds(1000), 1);
        ExitAfter(absl::Milliseconds(20), 72);
        while (true) pause();
      },
      testing::ExitedWithCode(72), "");
}

}  // namespace
}  // namespace dunlin::server
