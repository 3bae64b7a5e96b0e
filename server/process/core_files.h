// SPDX-License-Identifier: Apache-2.0
// Core files: a crash writes the memory of the process to a disk, keys and prompts that calls have sent among it.
#pragma once

#include <sys/prctl.h>

namespace dunlin::server {

// From now on the kernel writes no core file of this process, neither to a file nor to a program, and other processes
// of its user cannot read its memory. Any thread. Source: prctl(2), PR_SET_DUMPABLE.
inline void ForbidCoreFiles() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

}  // namespace dunlin::server
