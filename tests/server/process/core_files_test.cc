// SPDX-License-Identifier: Apache-2.0
// A process that has forbidden core files leaves none when it crashes, whatever its limits allow.
#include "server/process/core_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace dunlin::server {
namespace {

TEST(CoreFiles, AreNotLeftOnceForbidden) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &unlimited);
    ForbidCoreFiles();
    if (prctl(PR_GET_DUMPABLE) != 0) _exit(1);
    std::abort();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "still dumpable";
  EXPECT_FALSE(WCOREDUMP(status));
}

}  // namespace
}  // namespace dunlin::server
