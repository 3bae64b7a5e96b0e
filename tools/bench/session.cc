// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/bench/cache_size.h"
#include "tools/bench/processor_name.h"

namespace dunlin::tools::bench {
namespace {

// "key : value" of the first line of a /proc file that starts with `key`; "" when there is none.
std::string ProcValue(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.rfind(key, 0) != 0 || colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

}  // namespace

absl::Status CheckMemory(const std::string& what, double bytes) {
  double free_kib = 0.0;
  std::istringstream(ProcValue("/proc/meminfo", "MemAvailable")) >> free_kib;
  const double limit = free_kib * 1024.0 * 0.8;
  if (limit == 0.0 || bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s needs %.0f bytes; limit is %.0f (80%% of the memory that is free now)", what, bytes, limit));
}

size_t ResidentSetBytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

absl::Status Session::OpenDevice() {
  constexpr auto& kOrder = kernels::kDeviceAutoOrder;
  const auto* named = kernels::FindByName(kernels::kDeviceKindTable, options_.device);  // null: auto
  std::string error;
  for (size_t i = 0; i < kOrder.size(); ++i) {
    if (named != nullptr && named->kind != kOrder[i]) continue;
    device_ = kernels::OpenDevice(kOrder[i], options_.device_options, &error);
    if (device_ != nullptr) return absl::OkStatus();
    if (i + 1 == kOrder.size()) break;
    if (named != nullptr) {
      return absl::InvalidArgumentError(std::string("device ") + named->name + " cannot be opened: " + error);
    }
    std::cerr << "no " << Traits(kOrder[i]).label << " device, measuring the " << Traits(kOrder[i + 1]).label << ": "
              << error << "\n";
  }
  return absl::InvalidArgumentError(error);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const BenchOptions& options) {
  std::unique_ptr<Session> session(new Session(options));
  if (absl::Status status = session->OpenDevice(); !status.ok()) return status;
  const kernels::DeviceKind kind = session->device_->ops->kind;
  Machine& machine = session->machine_;
  machine.device = kernels::Name(kind);
  if (kind == kernels::DeviceKind::kCpu) {
    const std::string& variant = options.device_options.cpu_variant;
    machine.processor = absl::StrCat(ProcessorName(), ", ", sysconf(_SC_NPROCESSORS_ONLN), " CPUs");
    machine.variant = variant.empty() ? kernels::AvailableCpuVariants().front() : variant;
  } else {
    machine.processor = session->device_->description;
  }
  return session;
}

size_t Session::bytes_beyond_caches() const {
  constexpr size_t kLeast = size_t{256} << 20;
  constexpr size_t kMost = size_t{2} << 30;
  constexpr size_t kGpu = size_t{512} << 20;  // 8 times the largest second-level cache, an H200's 60 MB
  if (device_->ops->kind != kernels::DeviceKind::kCpu) return kGpu;
  return std::clamp(8 * LastLevelCacheBytes(), kLeast, kMost);
}

absl::Status Session::Start() {
  absl::StatusOr<kernels::Roofs> roofs = MeasureRoofs();
  if (!roofs.ok()) return roofs.status();
  machine_.before = machine_.after = *roofs;
  return absl::OkStatus();
}

// A run bounded to less than a tenth of a second is a test, not a measurement, and need not wait for roofs.
bool Session::measures_roofs() const {
  return options_.max_seconds >= 0.1;
}

absl::Status Session::TakeRoofMemory() {
  constexpr size_t kUnmeasuredBytes = size_t{16} << 20;
  if (roof_memory_.data() != nullptr) return absl::OkStatus();
  auto memory = DeviceMemory::Allocate(device_.get(), measures_roofs() ? 2 * bytes_beyond_caches() : kUnmeasuredBytes,
                                       "the DRAM roof");
  if (!memory.ok()) return memory.status();
  roof_memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::StatusOr<kernels::Roofs> Session::MeasureRoofs() {
  if (absl::Status status = TakeRoofMemory(); !status.ok()) return status;
  kernels::Roofs roofs;
  const kernels::RoofParams params{.memory = roof_memory_.data(),
                                   .memory_bytes = roof_memory_.bytes(),
                                   .runs = measures_roofs() ? 6 : 1,
                                   .out = &roofs};
  if (auto status = StatusOf(device_->ops->measure_roofs(device_->context, params), "measure roofs"); !status.ok()) {
    return status;
  }
  roofs_at_ = Now();
  return roofs;
}

absl::StatusOr<double> Session::ProbeRoof(const char* unit, double seconds) {
  if (absl::Status status = TakeRoofMemory(); !status.ok()) return status;
  double rate = 0.0;
  const kernels::RoofProbe probe{.unit = unit,
                                 .seconds = seconds,
                                 .memory = roof_memory_.data(),
                                 .memory_bytes = roof_memory_.bytes(),
                                 .position = &roof_position_,
                                 .rate = &rate};
  const auto status = StatusOf(device_->ops->probe_roof(device_->context, probe), "probe a roof");
  if (!status.ok()) return status;
  return rate;
}

LeastSeconds Session::LeastFor(const Work& work) {
  if (!measures_roofs() || device_->ops->kind != kernels::DeviceKind::kCpu) return nullptr;
  // Which of two roofs of nearly the same height is the lower one may change from moment to moment: both are probed.
  constexpr double kNear = 3.0;
  const Bound bound = BoundOf(work, machine_.before);
  const bool computes = bound.compute_us * kNear >= bound.memory_us;
  const bool reads = bound.memory_us * kNear >= bound.compute_us;
  return [this, work, unit = bound.unit, computes, reads](double seconds) -> absl::StatusOr<double> {
    if (computes && reads) seconds /= 2;
    double least = 0.0;
    for (const auto& [probed, probed_unit, amount] :
         {std::tuple(computes, unit, work.flops), std::tuple(reads, static_cast<const char*>(nullptr), work.bytes)}) {
      if (!probed) continue;
      absl::StatusOr<double> rate = ProbeRoof(probed_unit, seconds);
      if (!rate.ok()) return rate;
      least = std::max(least, amount / *rate);
    }
    return least;
  };
}

TimingOptions Session::TimingFor(const Work& work) {
  TimingOptions options{.max_seconds = options_.max_seconds, .least = LeastFor(work)};
  if (device_->ops->kind == kernels::DeviceKind::kCpu) return options;  // a call has finished when it returns
  options.wait = [this] { return StatusOf(device_->ops->synchronize(device_->context), "synchronize"); };
  return options;
}

void Session::Add(Record record) {
  const Bound bound = BoundOf(record.work, machine_.before);
  const double ratio = record.timing.paired_ratio;
  std::cerr << absl::StreamFormat("%s %s %s %s: %.1f us, %.3f of %s, %s\n", record.op, record.case_name, record.backend,
                                  record.precision, record.timing.median_us, bound.us / record.timing.median_us,
                                  bound.roof, ratio == 0.0 ? "not paired" : absl::StrFormat("%.3f paired", ratio));
  if (options_.json) {
    roof_status_.Update(RenewRoofs());
    PrintJson(record, machine_);
  }
  records_.push_back(std::move(record));
}

// The machine's roofs become those on either side of the case that has just ended: the last ones, and new ones unless
// the last are young. Measuring takes up to a second on a CPU.
absl::Status Session::RenewRoofs() {
  constexpr double kRoofSeconds = 3.0;
  machine_.before = machine_.after;
  if (!measures_roofs() || Now() - roofs_at_ < kRoofSeconds) return absl::OkStatus();
  absl::StatusOr<kernels::Roofs> roofs = MeasureRoofs();
  if (!roofs.ok()) return roofs.status();
  machine_.after = *roofs;
  return absl::OkStatus();
}

absl::Status Session::SkipUnsupported(const std::string& what, const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return status;
  skipped_.push_back(absl::StrCat(what, ": ", std::string(status.message())));
  std::cerr << "skipped: " << skipped_.back() << "\n";
  return absl::OkStatus();
}

absl::Status Session::Finish() {
  if (records_.empty()) return absl::FailedPreconditionError(absl::StrJoin(skipped_, "\n"));
  if (!roof_status_.ok()) return roof_status_;
  if (!options_.json) {
    absl::StatusOr<kernels::Roofs> roofs = MeasureRoofs();
    if (!roofs.ok()) return roofs.status();
    machine_.after = *roofs;
    PrintTable(records_, machine_);
  }
  const auto wrong = std::count_if(records_.begin(), records_.end(), [](const Record& r) { return !r.proof.ok(); });
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(wrong, " of ", records_.size(), " results are out of their error bound"));
}

}  // namespace dunlin::tools::bench
