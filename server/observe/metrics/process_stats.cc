// SPDX-License-Identifier: Apache-2.0
#include "server/observe/metrics/process_stats.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

namespace dunlin::server {
namespace {

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

HeapSize SizeOfHeap() {
  const struct mallinfo2 info = mallinfo2();
  return {.used_bytes = static_cast<double>(info.uordblks + info.hblkhd),
          .free_bytes = static_cast<double>(info.fordblks)};
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
}

double NumThreads() {
  std::ifstream file("/proc/self/status");
  const std::string key = "Threads:";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size()));
  }
  return 0;
}

double NumOpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), &closedir);
  if (folder == nullptr) return 0;
  double count = -1;  // excludes the descriptor of the open folder
  while (const dirent* entry = readdir(folder.get())) count += entry->d_name[0] == '.' ? 0 : 1;
  return count;
}

double MaxOpenDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace dunlin::server
