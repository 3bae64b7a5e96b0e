#include "server/commands/execution_options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace dunlin::server {

void AddExecutionOptions(CLI::App* subcommand, ExecutionWords* words) {
  subcommand->add_option("--attention-backend", words->attention_backend, "Attention implementation")
      ->check(CLI::IsMember({"auto", "flash", "efficient", "math"}))
      ->capture_default_str();
  subcommand->add_option("--precision", words->precision, "Precision of weights and GEMMs")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "fp16", "fp8"}))
      ->capture_default_str();
  subcommand->add_option("--device", words->device, "Where it runs")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  subcommand->add_flag("--allow-fallback", words->allow_fallback, "Replace a backend that does not fit");
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
  return execution;
}

}  // namespace dunlin::server
