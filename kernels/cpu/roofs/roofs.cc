// SPDX-License-Identifier: Apache-2.0
// Runs the loops on every thread of the pool and keeps the best of several runs.
#include "kernels/cpu/roofs/roofs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <string_view>
#include <vector>

#include "kernels/cpu/roofs/units.h"

namespace dunlin::kernels::cpu {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Tasks of about 100 us, many more than threads: a thread that is preempted for a while runs fewer of them.
double MeasurePeak(DeviceContext* context, const UnitRow& unit, int32_t runs) {
  constexpr double kTaskSeconds = 100e-6;
  constexpr int64_t kTasksPerThread = 150;
  constexpr int64_t kTrialRounds = 4096;
  constexpr int kTrials = 8;
  // Trials find the number of rounds; the fastest one counts, because a thread may be preempted in any of them.
  double round_seconds = 1.0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    unit.run(kTrialRounds);
    round_seconds = std::min(round_seconds, SecondsSince(start) / static_cast<double>(kTrialRounds));
  }
  round_seconds = std::max(round_seconds, 1e-10);
  const auto rounds = std::max<int64_t>(1, static_cast<int64_t>(kTaskSeconds / round_seconds));
  const int64_t tasks = kTasksPerThread * context->pool.num_threads();
  double best = 0.0;
  for (int32_t run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    context->pool.Run(tasks, [&](int64_t, int) { unit.run(rounds); });
    best = std::max(best, static_cast<double>(tasks * rounds) * unit.round_flops / SecondsSince(start));
  }
  return best;
}

struct ReadPattern {
  size_t task_bytes;
  size_t prefetch_ahead;
};
// How GEMV and attention read, and the fastest patterns of different processors.
constexpr ReadPattern kReadPatterns[] = {
    {size_t{256} << 10, 0},  {size_t{256} << 10, 2048}, {size_t{256} << 10, 8192}, {size_t{1} << 20, 512},
    {size_t{1} << 20, 4096}, {size_t{1} << 20, 8192},   {size_t{8} << 20, 0},      {size_t{8} << 20, 2048},
};

double MeasureRead(DeviceContext* context, const RoofParams& params, ReadLoop read, const ReadPattern& pattern) {
  const auto* memory = static_cast<const std::byte*>(params.memory);
  const size_t bytes = params.memory_bytes / kReadUnit * kReadUnit;
  const auto tasks = static_cast<int64_t>((bytes + pattern.task_bytes - 1) / pattern.task_bytes);
  const auto start = std::chrono::steady_clock::now();
  context->pool.Run(tasks, [&](int64_t task, int) {
    const size_t first = static_cast<size_t>(task) * pattern.task_bytes;
    const size_t count = std::min(pattern.task_bytes, bytes - first);
    read(memory + first, count, pattern.prefetch_ahead);
  });
  return static_cast<double>(bytes) / SecondsSince(start);
}

// Every pattern once, then the best two again.
double MeasureBestRead(DeviceContext* context, const RoofParams& params) {
  const ReadLoop read = BestReadLoop();
  struct Trial {
    double rate;
    const ReadPattern* pattern;
  };
  Trial trials[std::size(kReadPatterns)];
  MeasureRead(context, params, read, kReadPatterns[0]);  // page tables and clocks
  for (size_t i = 0; i < std::size(trials); ++i) {
    trials[i] = {MeasureRead(context, params, read, kReadPatterns[i]), &kReadPatterns[i]};
  }
  std::partial_sort(std::begin(trials), std::begin(trials) + 2, std::end(trials),
                    [](const Trial& a, const Trial& b) { return a.rate > b.rate; });
  double best = trials[0].rate;
  for (int32_t run = 1; run < params.runs; ++run) {
    best = std::max(best, MeasureRead(context, params, read, *trials[run % 2].pattern));
  }
  return best;
}

// Calls run_some() on every thread, again and again until `seconds` are over, and returns the sum of what it did a
// second.
template <typename RunSome>
double RateFor(DeviceContext* context, double seconds, const RunSome& run_some) {
  std::atomic<uint64_t> done{0};
  const auto start = std::chrono::steady_clock::now();
  context->pool.Run(context->pool.num_threads(), [&](int64_t, int) {
    do {
      done.fetch_add(run_some(), std::memory_order_relaxed);
    } while (SecondsSince(start) < seconds);
  });
  return static_cast<double>(done.load()) / SecondsSince(start);
}

double ProbeRead(DeviceContext* context, const RoofProbe& probe) {
  constexpr size_t kChunk = size_t{256} << 10;
  // The shortest distance that is fastest where memory latency is high, or the hardware prefetcher alone (Zen 4):
  // whichever reads more.
  constexpr size_t kPrefetchAhead[] = {8192, 0};
  const ReadLoop read = BestReadLoop();
  const auto* memory = static_cast<const std::byte*>(probe.memory);
  const size_t chunk = std::min(kChunk, probe.memory_bytes / kReadUnit * kReadUnit);
  const size_t chunks = probe.memory_bytes / chunk;
  std::atomic<size_t> next{*probe.position / chunk};
  double rate = 0.0;
  for (const size_t ahead : kPrefetchAhead) {
    const double seconds = probe.seconds / static_cast<double>(std::size(kPrefetchAhead));
    rate = std::max(rate, RateFor(context, seconds, [&] {
                      read(memory + next.fetch_add(1, std::memory_order_relaxed) % chunks * chunk, chunk, ahead);
                      return chunk;
                    }));
  }
  *probe.position = next.load() % chunks * chunk;
  return rate;
}

const UnitRow* FindUnit(std::string_view name) {
  const std::span<const UnitRow> units = Units();
  const auto row = std::find_if(units.begin(), units.end(), [name](const UnitRow& unit) { return unit.name == name; });
  return row != units.end() && row->available() ? &*row : nullptr;
}

bool Readable(const void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return address != 0 && address % 64 == 0 && bytes >= kReadUnit;
}

}  // namespace

KernelStatus ProbeRoof(DeviceContext* context, const RoofProbe& probe) {
  constexpr int64_t kRounds = 1024;  // 2 to 20 us: short against any useful probe
  if (probe.rate == nullptr || !(probe.seconds > 0)) return KernelStatus::kInvalidArgument;
  if (probe.unit == nullptr) {
    if (probe.position == nullptr || !Readable(probe.memory, probe.memory_bytes)) return KernelStatus::kInvalidArgument;
    *probe.rate = ProbeRead(context, probe);
    return KernelStatus::kOk;
  }
  const UnitRow* unit = FindUnit(probe.unit);
  if (unit == nullptr) return KernelStatus::kInvalidArgument;
  *probe.rate = unit->round_flops * RateFor(context, probe.seconds, [unit] {
                  unit->run(kRounds);
                  return static_cast<uint64_t>(kRounds);
                });
  return KernelStatus::kOk;
}

KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params) {
  if (params.out == nullptr || !Readable(params.memory, params.memory_bytes) || params.runs < 1) {
    return KernelStatus::kInvalidArgument;
  }
  Roofs roofs;
  const std::span<const UnitRow> units = Units();
  std::vector<double> peaks(units.size(), 0.0);
  size_t fp32 = 0;
  size_t bf16 = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    if (!units[i].available()) continue;
    peaks[i] = MeasurePeak(context, units[i], params.runs);
    if (units[i].fp32 && peaks[i] > peaks[fp32]) fp32 = i;
    if (peaks[i] > peaks[bf16]) bf16 = i;
  }
  const VariantUnits own = UnitsOf(context->variant);
  const auto set = [&](Peak peak, size_t fastest, size_t used) {
    roofs.fastest[static_cast<int>(peak)] = {peaks[fastest], units[fastest].name};
    roofs.own[static_cast<int>(peak)] = {peaks[used], units[used].name};
  };
  set(Peak::kFp32, fp32, own.fp32);
  set(Peak::kBf16, bf16, own.bf16);
  roofs.dram_read_bytes = MeasureBestRead(context, params);
  roofs.num_threads = context->pool.num_threads();
  *params.out = roofs;
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
