// SPDX-License-Identifier: Apache-2.0
// The CPU quota of a control group, as containers set it. Pure functions over a file system root, so that a test can
// lay out its own tree; UsableCpus() in thread_pool.h reads the real one.
// Source: kernel documentation, cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
#pragma once

#include <string>

namespace dunlin::kernels::cpu {

// The smallest quota on the way from the process's group to the root, in CPUs rounded up; 0 when there is none.
// root: "" for the real system; reads <root>/proc/self/cgroup and <root>/sys/fs/cgroup/...
int CgroupCpuQuota(const std::string& root);

}  // namespace dunlin::kernels::cpu
