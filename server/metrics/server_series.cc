#include "server/metrics/server_series.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

namespace dunlin::server {
namespace {

constexpr auto kGauge = prometheus::MetricType::Gauge;
constexpr auto kCounter = prometheus::MetricType::Counter;

prometheus::MetricFamily One(const char* name, const char* help, prometheus::MetricType type, double value) {
  prometheus::ClientMetric metric;
  metric.gauge.value = value;
  metric.counter.value = value;
  return {name, help, type, {metric}};
}

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

double Threads() {
  std::ifstream file("/proc/self/status");
  const std::string key = "Threads:";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size()));
  }
  return 0;
}

double OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), &closedir);
  if (folder == nullptr) return 0;
  double count = -1;  // the folder's own
  while (const dirent* entry = readdir(folder.get())) count += entry->d_name[0] == '.' ? 0 : 1;
  return count;
}

double MaxDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

std::vector<prometheus::MetricFamily> EdgeSeries(const EdgeSnapshot& edge) {
  return {One("dunlin_ready", "1 while requests are taken, 0 while loading or draining", kGauge, edge.ready ? 1 : 0),
          One("dunlin_requests_in_flight", "Calls accepted and not ended", kGauge, edge.requests_in_flight),
          One("dunlin_queued_bytes", "Bytes of requests accepted and not yet tokenised", kGauge,
              static_cast<double>(edge.queued_bytes))};
}

std::vector<prometheus::MetricFamily> ProcessSeries(double start_time_s) {
  return {One("process_start_time_seconds", "Start, in seconds since 1970", kGauge, start_time_s),
          One("process_resident_memory_bytes", "Memory that is resident", kGauge, ResidentBytes()),
          One("process_cpu_seconds_total", "User and system time of all threads", kCounter, CpuSeconds()),
          One("process_threads", "Threads", kGauge, Threads()),
          One("process_open_fds", "Open file descriptors", kGauge, OpenDescriptors()),
          One("process_max_fds", "Limit of open file descriptors", kGauge, MaxDescriptors())};
}

}  // namespace dunlin::server
