// SPDX-License-Identifier: Apache-2.0
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
#include "tools/bench/device_memory.h"
#include "tools/bench/options.h"
#include "tools/bench/record.h"

namespace dunlin::tools::bench {

class Session {
 public:
  // Opens the device. "auto" falls back to the CPU if CUDA cannot be opened, with the reason on stderr.
  // INVALID_ARGUMENT with the reason when the device cannot be opened.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const BenchOptions& options);
  // Measures the roofs. Called once, after the options were checked and before the first case.
  absl::Status Start();

  const BenchOptions& options() const { return options_; }
  kernels::Device* device() const { return device_.get(); }
  // For the paired_ratio of a call that does `work`; null where the run is too short to measure roofs, and on a device
  // that nothing else uses.
  LeastSeconds LeastFor(const Work& work);
  // How calls that do `work` are timed on the device.
  TimingOptions TimingFor(const Work& work);
  // More bytes than the device's caches hold: a case that must read from memory cycles through so many.
  size_t bytes_beyond_caches() const;
  // Frees the buffer that LeastFor's functions read, until one is called again: before resident memory is measured.
  void ReleaseRoofMemory() { roof_memory_ = DeviceMemory(); }
  // Adds a finished case, reports it on stderr and, as JSON, prints it at once: a run that is killed keeps what it
  // measured. Roofs are measured again where the last ones are older than kRoofSeconds.
  void Add(Record record);
  // Turns FAILED_PRECONDITION, a case that the device does not support, into OK and reports it on stderr as skipped;
  // any other status is returned.
  absl::Status SkipUnsupported(const std::string& what, const absl::Status& status);
  // As a table: measures the roofs again and prints the records. DATA_LOSS when a result exceeded its bound;
  // FAILED_PRECONDITION, with the reasons, when every case was skipped; or the error of a measurement in Add.
  absl::Status Finish();

 private:
  explicit Session(const BenchOptions& options) : options_(options) {}
  absl::Status OpenDevice();
  bool measures_roofs() const;
  absl::Status TakeRoofMemory();
  absl::StatusOr<kernels::Roofs> MeasureRoofs();
  absl::Status RenewRoofs();
  absl::StatusOr<double> ProbeRoof(const char* unit, double seconds);

  const BenchOptions options_;
  std::unique_ptr<kernels::Device> device_;
  Machine machine_;
  double roofs_at_ = 0.0;  // Now() of the last measurement
  absl::Status roof_status_;
  DeviceMemory roof_memory_;
  size_t roof_position_ = 0;
  std::vector<Record> records_;
  std::vector<std::string> skipped_;
};

// OK when `bytes` fit into the memory available now; RESOURCE_EXHAUSTED names `what`, bytes and limit.
absl::Status CheckMemory(const std::string& what, double bytes);

// Memory that the process holds now.
size_t ResidentSetBytes();

}  // namespace dunlin::tools::bench
