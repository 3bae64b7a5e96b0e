// SPDX-License-Identifier: Apache-2.0
// Runs a range of seeds and prints how fast they ran and how often each event happened; on a failure, the seed and the
// trace of a run with as few requests as it needs. A broken invariant in the product ends a process, so runs are those
// of a child.
//
//   simulate --seeds 1:1000001 [--level scheduler|server|repository] [--trace]
//
// Exit status: 0, 1 (a seed failed) or 2 (usage).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request/types.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "tests/simulation/levels.h"
#include "tests/simulation/shrink.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {
namespace {

struct Options {
  uint64_t first = 0;
  uint64_t end = 0;
  std::string_view level;  // empty: all
  bool trace = false;
};

// What a child leaves to its parent, in memory that both have.
struct Report {
  uint64_t seed;
  size_t level;
  char problem[400];  // empty: none
  SimulationStats stats;
};

bool Parse(int count, char** arguments, Options* options) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const bool has_value = i + 1 < count;
    if (argument == "--seeds" && has_value) {
      unsigned long long first = 0;
      unsigned long long end = 0;
      char rest = 0;
      if (std::sscanf(arguments[++i], "%llu:%llu%c", &first, &end, &rest) != 2) return false;
      options->first = first;
      options->end = end;
    } else if (argument == "--level" && has_value) {
      options->level = arguments[++i];
    } else if (argument == "--trace") {
      options->trace = true;
    } else {
      return false;
    }
  }
  bool known = options->level.empty();
  for (const Level& level : kLevels) known |= options->level == level.name;
  return known && options->first < options->end;
}

// Runs `work` in a child. Whether the child ended by itself.
bool RunInChild(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The level that was asked for, else the first.
const Level& LevelOf(const Options& options) {
  for (const Level& level : kLevels) {
    if (options.level == level.name) return level;
  }
  return kLevels[0];
}

void RunAll(const Options& options, Report* report) {
  for (report->seed = options.first; report->seed < options.end; ++report->seed) {
    for (report->level = 0; report->level < std::size(kLevels); ++report->level) {
      const Level& level = kLevels[report->level];
      if (!options.level.empty() && options.level != level.name) continue;
      const std::string problem = level.run(report->seed, {}, &report->stats);
      if (problem.empty()) continue;
      std::snprintf(report->problem, sizeof(report->problem), "%s", problem.c_str());
      return;
    }
  }
}

void PrintEvents(const SimulationStats& stats) {
  for (const EventTraits& event : kEventTable) {
    std::printf("%14lld  %s\n", static_cast<long long>(stats[event.event]), event.name);
  }
  static constexpr const char* kReasons[] = {"stop",        "length",    "constraint",     "cancelled", "deadline",
                                             "slow reader", "numerical", "pool too small", "shutdown",  "internal"};
  for (size_t reason = 0; reason < std::size(kReasons); ++reason) {
    std::printf("%14lld  ended: %s\n", static_cast<long long>(stats.ended_by[reason]), kReasons[reason]);
  }
  for (size_t profile = 0; profile < engine::kNumProfiles; ++profile) {
    const auto backend = static_cast<engine::AttentionBackend>(profile / kernels::kNumPrecisions);
    const auto precision = static_cast<engine::Precision>(profile % kernels::kNumPrecisions);
    std::printf("%14lld  ended: %s/%s\n", static_cast<long long>(stats.of_profile[profile]), kernels::Name(backend),
                kernels::Name(precision));
  }
}

void PrintTrace(const Level& level, uint64_t seed, const std::vector<size_t>& left_out) {
  RunInChild([&] {
    std::vector<std::string> trace;
    SimulationStats stats;
    const std::string problem = level.run(seed, {left_out, &trace}, &stats);
    for (const std::string& line : trace) std::printf("  %s\n", line.c_str());
    std::printf("  %s\n", problem.c_str());
  });
}

void PrintFailure(const Report& failed) {
  const Level& level = kLevels[failed.level];
  std::printf("seed %llu, level %s: %s\n", static_cast<unsigned long long>(failed.seed), level.name,
              *failed.problem != '\0' ? failed.problem : "the process ended: a broken invariant or a crash");
  const auto fails = [&](const std::vector<size_t>& left_out) {
    return !RunInChild([&] {
      SimulationStats stats;
      if (!level.run(failed.seed, {left_out, nullptr}, &stats).empty()) _exit(1);
    });
  };
  if (!fails({})) return;  // it failed otherwise than by its seed alone
  const std::vector<size_t> left_out = Shrink(size_t{kMaxRequests}, fails);
  std::printf("without requests");
  for (const size_t request : left_out) std::printf(" %zu", request);
  std::printf(":\n");
  PrintTrace(level, failed.seed, left_out);
}

int Simulate(const Options& options) {
  void* memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* report = new (memory) Report();
  const auto begin = std::chrono::steady_clock::now();
  const bool ended = RunInChild([&] { RunAll(options, report); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const bool failed = !ended || *report->problem != '\0';
  const uint64_t seeds = report->seed - options.first;
  std::printf("%llu seeds in %.1f s, %.0f a second\n", static_cast<unsigned long long>(seeds), took.count(),
              static_cast<double>(seeds) / took.count());
  if (!failed) PrintEvents(report->stats);
  if (failed) PrintFailure(*report);
  if (options.trace && !failed) PrintTrace(LevelOf(options), options.first, {});
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace dunlin::simulation

int main(int count, char** arguments) {
  dunlin::simulation::Options options;
  if (dunlin::simulation::Parse(count, arguments, &options)) return dunlin::simulation::Simulate(options);
  std::fprintf(stderr, "usage: simulate --seeds FIRST:END [--level scheduler|server|repository] [--trace]\n");
  return 2;
}
