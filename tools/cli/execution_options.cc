// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/execution_options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"

namespace dunlin::cli {
namespace {

constexpr char kAuto[] = "auto";

template <typename Row, size_t kRows>
std::vector<std::string> AutoAndNamesOf(const Row (&table)[kRows]) {
  std::vector<std::string> names = kernels::NamesOf(table);
  names.insert(names.begin(), kAuto);
  return names;
}

}  // namespace

std::vector<std::string> BackendWords() {
  std::vector<std::string> words = {kAuto};
  for (const kernels::AttentionBackend backend : kernels::kAutoOrder) words.emplace_back(Name(backend));
  return words;
}

std::vector<std::string> PrecisionWords() {
  return AutoAndNamesOf(kernels::kPrecisionTable);
}

void AddExecutionOptions(CLI::App* subcommand, ExecutionWords* words) {
  subcommand->add_option("--attention-backend", words->attention_backend, "Attention implementation")
      ->check(CLI::IsMember(BackendWords(), CLI::ignore_case))
      ->capture_default_str();
  subcommand->add_option("--precision", words->precision, "Precision of weights and GEMMs")
      ->check(CLI::IsMember(PrecisionWords(), CLI::ignore_case))
      ->capture_default_str();
  subcommand->add_option("--device", words->device, "Device to run on")
      ->check(CLI::IsMember(AutoAndNamesOf(kernels::kDeviceKindTable), CLI::ignore_case))
      ->capture_default_str();
  subcommand->add_flag("--allow-fallback", words->allow_fallback, "Use another backend if this one is not supported");
}

void AddSpeculationOption(CLI::App* subcommand, ExecutionWords* words) {
  subcommand->add_option(
      "--speculation", words->speculation,
      "Tokens that a step guesses and verifies at most: off, auto or 1 to 16 (default: the model's)");
}

v1::ExecutionOptions ExecutionNamed(const ExecutionWords& words) {
  v1::Device device = v1::DEVICE_UNSPECIFIED;
  v1::Device_Parse(absl::StrCat("DEVICE_", absl::AsciiStrToUpper(words.device)), &device);
  v1::AttentionBackend backend = v1::ATTENTION_BACKEND_UNSPECIFIED;
  v1::AttentionBackend_Parse(absl::StrCat("ATTENTION_BACKEND_", absl::AsciiStrToUpper(words.attention_backend)),
                             &backend);
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  v1::Precision_Parse(absl::StrCat("PRECISION_", absl::AsciiStrToUpper(words.precision)), &precision);
  v1::ExecutionOptions execution;
  execution.set_device(device);
  execution.set_attention_backend(backend);
  execution.set_precision(precision);
  execution.set_allow_fallback(words.allow_fallback);
  execution.set_speculation(words.speculation);
  return execution;
}

}  // namespace dunlin::cli
