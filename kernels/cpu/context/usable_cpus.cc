// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "kernels/cpu/context/thread_pool.h"

namespace dunlin::kernels::cpu {
namespace {

// Whole CPUs of quota / period microseconds; 0 for no limit (v1 writes -1, v2 writes "max").
int QuotaCpus(double quota_us, double period_us) {
  if (quota_us <= 0 || period_us <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota_us / period_us)));
}

int ReadV2(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  return QuotaCpus(std::strtod(quota.c_str(), nullptr), period);
}

int ReadV1(const std::string& directory) {
  std::ifstream quota_file(directory + "/cpu.cfs_quota_us");
  std::ifstream period_file(directory + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  return QuotaCpus(quota, period);
}

int Smaller(int a, int b) {
  return a == 0 ? b : (b == 0 ? a : std::min(a, b));
}

// Inside a container the group's path often does not exist under the mount: then only the root is found, which is
// where the container's own limit is visible.
int SmallestUpwards(const std::string& mount, std::string path, int (*read)(const std::string&)) {
  int cpus = 0;
  while (!path.empty() && path != "/") {
    cpus = Smaller(cpus, read(mount + path));
    path.erase(path.find_last_of('/'));
  }
  return Smaller(cpus, read(mount));
}

bool HasCpuController(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

int CgroupCpuQuota(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  int cpus = 0;
  for (std::string line; std::getline(groups, line);) {  // "id:controllers:path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      cpus = Smaller(cpus, SmallestUpwards(mount, path, ReadV2));
      cpus = Smaller(cpus, SmallestUpwards(mount + "/unified", path, ReadV2));
    } else if (HasCpuController(controllers)) {
      std::string group = mount;
      group.append("/").append(controllers);
      cpus = Smaller(cpus, SmallestUpwards(group, path, ReadV1));
      if (controllers != "cpu") cpus = Smaller(cpus, SmallestUpwards(mount + "/cpu", path, ReadV1));
    }
  }
  return cpus;
}

int UsableCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  int cpus = 1;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cpus = std::max(1, CPU_COUNT(&allowed));
  return Smaller(cpus, CgroupCpuQuota(""));
}

}  // namespace dunlin::kernels::cpu
