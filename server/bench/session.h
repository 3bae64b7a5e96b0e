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
#include "server/bench/options.h"
#include "server/bench/record.h"

namespace dunlin::server::bench {

// Device memory that is released with its owner.
class DeviceMemory {
 public:
  // RESOURCE_EXHAUSTED names `what` and its size.
  static absl::StatusOr<DeviceMemory> Allocate(kernels::Device* device, size_t bytes, const char* what);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();
  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  kernels::Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Session {
 public:
  // Opens the device. INVALID_ARGUMENT when the options name one that cannot be opened.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const BenchOptions& options);
  // Measures the roofs: once, when the options are known to be good and before the first case.
  absl::Status Start();

  const BenchOptions& options() const { return options_; }
  kernels::Device* device() const { return device_.get(); }
  // For the paired_ratio of a call that does `work`; null where the run is too short to measure roofs.
  LeastSeconds LeastFor(const Work& work);
  // Gives back what LeastFor's functions read from memory, until one is called again: for what measures its own size.
  void ReleaseRoofMemory() { roof_memory_ = DeviceMemory(); }
  // Keeps a finished case and says so on stderr.
  void Add(Record record);
  // Says on stderr that a combination is left out, and why.
  void Skip(const std::string& what, const std::string& why);
  // Measures the roofs again and prints the records. DATA_LOSS when a result was out of its bound.
  absl::Status Finish();

 private:
  explicit Session(const BenchOptions& options) : options_(options) {}
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
};

// Bytes that no cache of this machine holds: what a case that must read from memory goes through before it comes back.
size_t BytesBeyondCaches();

// OK when `bytes` fit into the memory that is free now; RESOURCE_EXHAUSTED names `what`, bytes and limit.
absl::Status CheckMemory(const std::string& what, double bytes);

// OK, or INTERNAL naming the operation.
absl::Status StatusOf(kernels::KernelStatus status, const char* operation);

}  // namespace dunlin::server::bench
