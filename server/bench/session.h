// One run of `dunlin bench`: the device, its roofs before and after, and the records in between.
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/bench/device_memory.h"
#include "server/bench/options.h"
#include "server/bench/record.h"

namespace dunlin::server::bench {

class Session {
 public:
  // Opens the device; "auto" takes the CPU, and says why on stderr, where CUDA does not open. INVALID_ARGUMENT with the
  // reason when the device cannot be opened.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const BenchOptions& options);
  // Measures the roofs: once, when the options are known to be good and before the first case.
  absl::Status Start();

  const BenchOptions& options() const { return options_; }
  kernels::Device* device() const { return device_.get(); }
  // For the paired_ratio of a call that does `work`; null where the run is too short to measure roofs, and on a device
  // that the run has to itself.
  LeastSeconds LeastFor(const Work& work);
  // How calls that do `work` are timed on the device.
  TimingOptions TimingFor(const Work& work);
  // Bytes that no cache of the device holds: what a case that must read from memory goes through before it comes back.
  size_t bytes_beyond_caches() const;
  // Gives back what LeastFor's functions read from memory, until one is called again: for what measures its own size.
  void ReleaseRoofMemory() { roof_memory_ = DeviceMemory(); }
  // Keeps a finished case and says so on stderr.
  void Add(Record record);
  // What the device does not take (FAILED_PRECONDITION) is left out, which stderr says: OK. Any other status is
  // returned.
  absl::Status LeaveOut(const std::string& what, const absl::Status& status);
  // Measures the roofs again and prints the records. DATA_LOSS when a result was out of its bound; FAILED_PRECONDITION,
  // with the reasons, when all was left out.
  absl::Status Finish();

 private:
  explicit Session(const BenchOptions& options) : options_(options) {}
  absl::Status OpenDevice();
  bool measures_roofs() const;
  absl::Status TakeRoofMemory();
  absl::StatusOr<kernels::Roofs> MeasureRoofs();
  absl::StatusOr<double> ProbeRoof(const char* unit, double seconds);

  const BenchOptions options_;
  std::unique_ptr<kernels::Device> device_;
  Machine machine_;
  DeviceMemory roof_memory_;
  size_t roof_position_ = 0;
  std::vector<Record> records_;
  std::vector<std::string> left_out_;
};

// OK when `bytes` fit into the memory that is free now; RESOURCE_EXHAUSTED names `what`, bytes and limit.
absl::Status CheckMemory(const std::string& what, double bytes);

}  // namespace dunlin::server::bench
