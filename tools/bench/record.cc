// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/record.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace dunlin::tools::bench {
namespace {

// Three digits are noise; whole numbers keep JSON lines short.
double Rounded(double value) {
  return std::stod(absl::StrFormat("%.5g", value));
}

constexpr const char* kPeakNames[kernels::kNumPeaks] = {"fp32", "bf16", "fp16", "fp8"};
constexpr const char* kRoofNames[kernels::kNumPeaks] = {"fp32_flops", "bf16_flops", "fp16_flops", "fp8_flops"};

Json RoofsJson(const kernels::Roofs& roofs) {
  Json json;
  for (int i = 0; i < kernels::kNumPeaks; ++i) {
    if (roofs.fastest[i].flops == 0.0) continue;
    const std::string name = kPeakNames[i];
    json[name + "_gflops"] = Rounded(roofs.fastest[i].flops / 1e9);
    json[name + "_unit"] = roofs.fastest[i].unit;
    json["variant_" + name + "_gflops"] = Rounded(roofs.own[i].flops / 1e9);
    json["variant_" + name + "_unit"] = roofs.own[i].unit;
  }
  json["dram_read_gbytes_per_s"] = Rounded(roofs.dram_read_bytes / 1e9);
  return json;
}

std::string RoofsLine(const kernels::Roofs& roofs) {
  std::string line;
  for (int i = 0; i < kernels::kNumPeaks; ++i) {
    if (roofs.fastest[i].flops == 0.0) continue;
    absl::StrAppendFormat(&line, "%s %.1f GFLOP/s (%s), ", absl::AsciiStrToUpper(kPeakNames[i]),
                          roofs.fastest[i].flops / 1e9, roofs.fastest[i].unit);
  }
  return line + absl::StrFormat("DRAM read %.2f GB/s", roofs.dram_read_bytes / 1e9);
}

// The one that the device multiplies such values as.
Peak PeakOfDevice(Peak peak, const kernels::Roofs& roofs) {
  if (roofs.fastest[static_cast<int>(peak)].flops > 0.0) return peak;
  return peak == Peak::kFp8 ? Peak::kBf16 : Peak::kFp32;
}

// Of the case: its name and what the op adds to tell cases apart.
std::string Label(const Record& record) {
  std::string label = record.case_name;
  for (const char* key : {"layer", "fp8_recipe", "execution", "group", "batch", "inputs", "phase"}) {
    if (record.extra.contains(key)) {
      const Json& value = record.extra[key];
      absl::StrAppend(&label, " ", value.is_string() ? value.get<std::string>() : absl::StrCat(key, "=", value.dump()));
    }
  }
  return label;
}

}  // namespace

kernels::Roofs Machine::Best() const {
  kernels::Roofs best = before;
  for (int i = 0; i < kernels::kNumPeaks; ++i) {
    if (after.fastest[i].flops > best.fastest[i].flops) best.fastest[i] = after.fastest[i];
    if (after.own[i].flops > best.own[i].flops) best.own[i] = after.own[i];
  }
  best.dram_read_bytes = std::max(before.dram_read_bytes, after.dram_read_bytes);
  return best;
}

Bound BoundOf(const Work& work, const kernels::Roofs& roofs) {
  const auto peak = static_cast<int>(PeakOfDevice(work.peak, roofs));
  const double compute_us = work.flops / roofs.fastest[peak].flops * 1e6;
  const double variant_us = work.flops / roofs.own[peak].flops * 1e6;
  const double memory_us = work.bytes / roofs.dram_read_bytes * 1e6;
  const bool reads = memory_us > compute_us;
  return {.roof = reads ? "dram_read" : kRoofNames[peak],
          .unit = roofs.fastest[peak].unit,
          .us = std::max(compute_us, memory_us),
          .compute_us = compute_us,
          .memory_us = memory_us,
          .variant_us = std::max(variant_us, memory_us)};
}

Json ToJson(const Record& record, const Machine& machine) {
  const kernels::Roofs best = machine.Best();
  const Bound bound = BoundOf(record.work, best);
  const double us = record.timing.median_us;
  Json json = {{"op", record.op},
               {"case", record.case_name},
               {"device", machine.device},
               {"backend", record.backend.empty() ? Json() : Json(record.backend)},
               {"precision", record.precision},
               {"shape", record.shape},
               {"threads", best.num_threads},
               {"median_us", Rounded(us)},
               {"min_us", Rounded(record.timing.min_us)},
               {"iterations", record.timing.iterations},
               {"calls_per_iteration", record.timing.group},
               {"gflops", Rounded(record.work.flops / us / 1e3)},
               {"gbytes_per_s", Rounded(record.work.bytes / us / 1e3)},
               {"roof", bound.roof},
               {"roof_us", Rounded(bound.us)},
               {"roofline_ratio", Rounded(bound.us / us)},
               {"paired_ratio", record.timing.paired_ratio == 0.0 ? Json() : Json(Rounded(record.timing.paired_ratio))},
               {"variant_peak_ratio", Rounded(bound.variant_us / us)},
               {"workspace_bytes", record.workspace_bytes},
               {"resident_bytes", record.resident_bytes},
               {"output_sha256", record.proof.sha256},
               {"max_abs_error_fp64", record.proof.samples == 0 ? Json() : Json(record.proof.max_abs_error)},
               {"error_bound", record.proof.bound},
               {"error_samples", record.proof.samples}};
  if (record.products_us > 0.0) {
    const Bound products = BoundOf({.flops = record.products_flops, .peak = record.work.peak}, best);
    json["gemm_us"] = Rounded(record.products_us);
    json["gemm_roofline_ratio"] = Rounded(products.us / record.products_us);
  }
  json.update(record.extra);
  json["variant"] = machine.variant;
  json["machine"] = machine.processor;
  json["roofs"] = {{"before", RoofsJson(machine.before)}, {"after", RoofsJson(machine.after)}};
  return json;
}

void PrintJson(const Record& record, const Machine& machine) {
  std::cout << ToJson(record, machine).dump() << std::endl;
}

void PrintTable(const std::vector<Record>& records, const Machine& machine) {
  const kernels::Roofs best = machine.Best();
  std::cout << machine.processor << "; " << machine.device
            << (machine.variant.empty() ? "" : ", variant " + machine.variant) << ", " << best.num_threads
            << (best.num_threads == 1 ? " thread" : " threads") << "\n"
            << "roofs before: " << RoofsLine(machine.before) << "\n"
            << "roofs after:  " << RoofsLine(machine.after) << "\n\n"
            << absl::StreamFormat("%-28s %-9s %-6s %-18s %4s %12s %9s %8s %-10s %6s %6s %7s %10s %10s  %s\n", "case",
                                  "backend", "prec", "shape", "n", "median us", "GFLOP/s", "GB/s", "roof", "ratio",
                                  "paired", "of own", "workspace", "max error", "sha256");
  for (const Record& record : records) {
    const Bound bound = BoundOf(record.work, best);
    const double us = record.timing.median_us;
    const std::string error = record.proof.samples == 0 ? "-" : absl::StrFormat("%.2g", record.proof.max_abs_error);
    const double ratio = record.timing.paired_ratio;
    const std::string paired = ratio == 0.0 ? "-" : absl::StrFormat("%.3f", ratio);
    std::cout << absl::StreamFormat(
        "%-28s %-9s %-6s %-18s %4d %12.1f %9.1f %8.2f %-10s %6.3f %6s %7.3f %10d %10s  %.8s%s\n", Label(record),
        record.backend, record.precision, absl::StrJoin(record.shape, "x"), record.timing.iterations, us,
        record.work.flops / us / 1e3, record.work.bytes / us / 1e3, bound.roof, bound.us / us, paired,
        bound.variant_us / us, record.workspace_bytes, error, record.proof.sha256,
        record.proof.ok() ? "" : "  ERROR OUT OF BOUND");
  }
}

}  // namespace dunlin::tools::bench
