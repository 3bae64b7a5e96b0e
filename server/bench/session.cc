#include "server/bench/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dunlin::server::bench {
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

std::string ProcessorName() {
  const std::string name = ProcValue("/proc/cpuinfo", "model name");
  return absl::StrCat(name.empty() ? "unknown processor" : name, ", ", sysconf(_SC_NPROCESSORS_ONLN), " CPUs");
}

}  // namespace

absl::StatusOr<DeviceMemory> DeviceMemory::Allocate(kernels::Device* device, size_t bytes, const char* what) {
  DeviceMemory memory;
  bytes = std::max<size_t>(bytes, 64);
  memory.data_ = device->ops->allocate(device->context, bytes);
  if (memory.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", what, ": ", bytes, " bytes"));
  }
  memory.device_ = device;
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->ops->release(device_->context, data_, bytes_);
}

size_t BytesBeyondCaches() {
  constexpr size_t kLeast = size_t{256} << 20;
  constexpr size_t kMost = size_t{2} << 30;
  const long last_level = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1 where it is not known
  return std::clamp(8 * static_cast<size_t>(std::max(last_level, 0L)), kLeast, kMost);
}

absl::Status CheckMemory(const std::string& what, double bytes) {
  double free_kib = 0.0;
  std::istringstream(ProcValue("/proc/meminfo", "MemAvailable")) >> free_kib;
  const double limit = free_kib * 1024.0 * 0.8;
  if (limit == 0.0 || bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s needs %.0f bytes; limit is %.0f (80%% of the memory that is free now)", what, bytes, limit));
}

absl::Status StatusOf(kernels::KernelStatus status, const char* operation) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(operation, " failed: ", kernels::Name(status)));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const BenchOptions& options) {
  std::unique_ptr<Session> session(new Session(options));
  std::string error;
  session->device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {options.threads, options.cpu_variant}, &error);
  if (session->device_ == nullptr) return absl::InvalidArgumentError(error);
  Machine& machine = session->machine_;
  machine.processor = ProcessorName();
  machine.device = kernels::Name(session->device_->ops->kind);
  machine.variant = options.cpu_variant.empty() ? kernels::AvailableCpuVariants().front() : options.cpu_variant;
  return session;
}

absl::Status Session::Start() {
  absl::StatusOr<kernels::Roofs> roofs = MeasureRoofs();
  if (!roofs.ok()) return roofs.status();
  machine_.before = *roofs;
  return absl::OkStatus();
}

// A run that is bounded to less than a tenth of a second is no measurement: a test, that need not wait for roofs.
bool Session::measures_roofs() const {
  return options_.max_seconds >= 0.1;
}

absl::Status Session::TakeRoofMemory() {
  constexpr size_t kUnmeasuredBytes = size_t{16} << 20;
  if (roof_memory_.data() != nullptr) return absl::OkStatus();
  auto memory = DeviceMemory::Allocate(device_.get(), measures_roofs() ? 2 * BytesBeyondCaches() : kUnmeasuredBytes,
                                       "the DRAM roof");
  if (memory.ok()) roof_memory_ = *std::move(memory);
  return memory.status();
}

absl::StatusOr<kernels::Roofs> Session::MeasureRoofs() {
  if (absl::Status status = TakeRoofMemory(); !status.ok()) return status;
  kernels::Roofs roofs;
  const kernels::RoofParams params{.memory = roof_memory_.data(),
                                   .memory_bytes = roof_memory_.bytes(),
                                   .runs = measures_roofs() ? 6 : 1,
                                   .out = &roofs};
  if (auto status = StatusOf(kernels::MeasureRoofs(device_.get(), params), "measure roofs"); !status.ok()) {
    return status;
  }
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
  if (auto status = StatusOf(kernels::ProbeRoof(device_.get(), probe), "probe a roof"); !status.ok()) return status;
  return rate;
}

LeastSeconds Session::LeastFor(const Work& work) {
  if (!measures_roofs()) return nullptr;
  const Bound bound = BoundOf(work, machine_.before);
  const bool reads = std::string_view(bound.roof) == "dram_read";
  const bool fp32 = work.peak == Peak::kFp32;
  const char* unit = reads ? nullptr : fp32 ? machine_.before.fp32_unit : machine_.before.bf16_unit;
  return [this, unit, amount = reads ? work.bytes : work.flops](double seconds) -> absl::StatusOr<double> {
    const absl::StatusOr<double> rate = ProbeRoof(unit, seconds);
    if (!rate.ok()) return rate;
    return amount / *rate;
  };
}

void Session::Add(Record record) {
  const Bound bound = BoundOf(record.work, machine_.before);
  std::cerr << absl::StreamFormat("%s %s %s %s: %.1f us, %.3f of %s, %.3f paired\n", record.op, record.case_name,
                                  record.backend, record.precision, record.timing.median_us,
                                  bound.us / record.timing.median_us, bound.roof, record.timing.paired_ratio);
  records_.push_back(std::move(record));
}

void Session::Skip(const std::string& what, const std::string& why) {
  std::cerr << what << " left out: " << why << "\n";
}

absl::Status Session::Finish() {
  absl::StatusOr<kernels::Roofs> roofs = MeasureRoofs();
  if (!roofs.ok()) return roofs.status();
  machine_.after = *roofs;
  if (options_.json) {
    PrintJson(records_, machine_);
  } else {
    PrintTable(records_, machine_);
  }
  const auto wrong = std::count_if(records_.begin(), records_.end(), [](const Record& r) { return !r.proof.ok(); });
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(wrong, " of ", records_.size(), " results are out of their error bound"));
}

}  // namespace dunlin::server::bench
