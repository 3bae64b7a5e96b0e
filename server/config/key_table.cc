// SPDX-License-Identifier: Apache-2.0
#include "server/config/key_table.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/fp8_recipe.h"
#include "engine/options.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/config/static_text.h"

namespace dunlin::server {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kTiB = kMiB * kMiB;
constexpr auto kStr = KeyType::kString;
constexpr auto kInt = KeyType::kInteger;
constexpr auto kBool = KeyType::kBool;
constexpr auto kList = KeyType::kStringList;

constexpr StaticText kDeviceChoices = ChoicesOf(kernels::kDeviceKindTable, "auto");
constexpr StaticText kPrecisionChoices = ChoicesOf(kernels::kPrecisionTable);
constexpr StaticText kRecipeChoices = ChoicesOf(engine::kFp8RecipeTable);

// attention.enable_<name> of every backend, in the order in which AUTO tries them.
struct BackendKey {
  StaticText path;
  StaticText description;
};
constexpr auto kBackendKeys = [] {
  std::array<BackendKey, kernels::kAutoOrder.size()> keys{};
  for (size_t i = 0; i < keys.size(); ++i) {
    const kernels::AttentionBackendTraits& row = kernels::Traits(kernels::kAutoOrder[i]);
    keys[i].path.Append(engine::kEnableBackendKey);
    keys[i].path.Append(row.name);
    keys[i].description.Append("Offer the ");
    keys[i].description.Append(row.label);
    keys[i].description.Append(" backend");
  }
  return keys;
}();

constexpr ConfigKey kListenAndModelKeys[] = {
    {"listen.grpc", kStr, "\"127.0.0.1:50051\"", 3, 255, nullptr, "Address of the gRPC port; port 0 takes a free one"},
    {"listen.http", kStr, "\"127.0.0.1:8080\"", 3, 255, nullptr,
     "Address of /metrics, /healthz and /readyz; port 0 takes a free one"},
    {"listen.reflection", kStr, "\"auto\"", 1, 8, "auto|on|off",
     "gRPC reflection; auto: on when listen.grpc is a loopback address"},

    {"models[].name", kStr, nullptr, 1, 128, nullptr, "Name that requests use"},
    {"models[].path", kStr, "\"\"", 0, 4096, nullptr,
     "Hugging Face model directory; relative to the config file's folder"},
    {"models[].weights", kStr, "\"files\"", 1, 8, "files|random", "Read path, or draw random weights for benchmarks"},
    {"models[].shape", kStr, "\"\"", 0, 4096, nullptr,
     "With random weights: gpt2-124m, gpt2-xl, llama-1b, llama-8b, qwen3-0.6b, mistral-7b, or the path of a "
     "config.json"},
    {"models[].seed", kInt, "0", 0, INT64_MAX, nullptr, "Seed of random weights"},
    {"models[].device", kStr, "\"auto\"", 1, 8, kDeviceChoices.c_str(),
     "Where the model runs; auto: on a CUDA device where one opens, else on the CPU"},
    {"models[].precisions", kList, "[\"bf16\"]", 1, kernels::kNumPrecisions, kPrecisionChoices.c_str(),
     "Precisions whose weights are resident; the first is the default of a request"},
    {"models[].fp8.recipe", kStr, "\"per_token\"", 1, 16, kRecipeChoices.c_str(),
     "Where an FP8 input's scale comes from: its own row, the model's constants, all rows computed together, or the "
     "steps before; the last two need deterministic false"},
    {"models[].fp8.format", kStr, "\"hybrid\"", 1, 8, "hybrid|e4m3",
     "Accepted for Transformer Engine configs, without effect: both formats quantise forward inputs to E4M3"},
    {"models[].fp8.amax_history_len", kInt, "16", 1, engine::kMaxAmaxHistory, nullptr,
     "delayed: steps whose largest magnitudes make a scale"},
    {"models[].fp8.amax_compute_algo", kStr, "\"max\"", 1, 16, "max|most_recent",
     "delayed: the largest of the history, or that of the last step"},
    {"models[].fp8.margin", kInt, "0", 0, engine::kMaxMargin, nullptr,
     "delayed: scales leave room for values 2^margin times larger"},
    {"models[].kv_cache.memory_bytes", kInt, "268435456", kMiB, kTiB, nullptr,
     "Memory of the KV page pool, fixed at start"},
    {"models[].kv_cache.fp8", kBool, "false", 0, 0, nullptr,
     "FP8 requests keep keys and values in E4M3 with one scale per token and KV head, instead of BF16"},
    {"models[].max_context_tokens", kInt, "0", 0, 1 << 24, nullptr,
     "Prompt and output together; 0 takes the model's own limit"},
    {"models[].deterministic", kBool, "true", 0, 0, nullptr,
     "A response never depends on its batch neighbours; false allows the FP8 recipes current and delayed"},
    {"models[].execution", kStr, "\"fused\"", 1, 8, "fused|eager",
     "eager runs every step of a module on its own: the oracle and the baseline of fused"},
};

constexpr ConfigKey kServerKeys[] = {
    {"scheduler.max_sequences", kInt, "64", 1, 1024, nullptr, "Sequences running at once, per model"},
    {"scheduler.max_tokens_per_step", kInt, "512", 1, 65536, nullptr,
     "Tokens of one step over all its sequences; longer prompts are prefilled in chunks"},
    {"scheduler.max_queued_requests", kInt, "256", 1, 1 << 20, nullptr,
     "Requests waiting to run; one more is refused with RESOURCE_EXHAUSTED"},
    {"scheduler.max_queued_tokens", kInt, "1048576", 1, int64_t{1} << 40, nullptr, "Prompt tokens waiting to run"},
    {"scheduler.prefix_cache", kBool, "true", 0, 0, nullptr, "Reuse the KV pages of equal prompt beginnings"},

    {"limits.max_concurrent_requests", kInt, "512", 1, 1 << 20, nullptr, "Requests accepted and not finished"},
    {"limits.max_queued_bytes", kInt, "67108864", kKiB, kTiB, nullptr,
     "Bytes of requests accepted and not yet tokenised"},
    {"limits.max_streams_per_connection", kInt, "100", 1, 65535, nullptr, "HTTP/2 streams of one connection"},
    {"limits.max_http_connections", kInt, "64", 1, 65535, nullptr, "Open connections of listen.http"},
    {"limits.max_message_bytes", kInt, "4194304", kKiB, 256 * kMiB, nullptr, "One gRPC message"},
    {"limits.max_metadata_bytes", kInt, "8192", kKiB, kMiB, nullptr, "Metadata of one call"},
    {"limits.max_unsent_tokens", kInt, "1024", 1, 1 << 20, nullptr,
     "Tokens an output may be ahead of its client before it ends as a slow reader"},
    {"limits.busy_message_interval_ms", kInt, "50", 0, 10000, nullptr,
     "While calls are refused for want of room: a stream's tokens that come sooner than this after its last ones go "
     "out with later ones, in one message; 0: each at once"},
    {"limits.max_embedding_inputs", kInt, "256", 1, 1 << 16, nullptr, "Inputs of one Embed call"},
    {"limits.default_max_tokens", kInt, "512", 1, 1 << 24, nullptr, "stopping.max_tokens of a request without one"},
    {"limits.retry_after_ms", kInt, "1000", 1, 3600000, nullptr, "RetryInfo of a full queue"},
    {"limits.keepalive_time_ms", kInt, "30000", 1000, 86400000, nullptr, "Ping a silent connection after this time"},
    {"limits.keepalive_timeout_ms", kInt, "10000", 1000, 86400000, nullptr, "Close it when the ping stays unanswered"},
    {"limits.drain_timeout_ms", kInt, "25000", 0, 86400000, nullptr,
     "After SIGTERM: time for what runs to finish before it is ended"},

    {"compute.threads", kInt, "0", 0, 1024, nullptr, "Compute threads of the CPU; 0 takes what the process may use"},
    {"compute.cpu_variant", kStr, "\"auto\"", 1, 16, "auto|portable|avx2|avx512|avx512_bf16|amx_bf16",
     "Force one build of the CPU kernels"},
    {"compute.cuda_module", kStr, "\"auto\"", 1, 4096, nullptr,
     "The shared library that holds the CUDA device; auto: libdunlin_cuda.so beside the binary"},
    {"compute.cublas_library", kStr, "\"auto\"", 1, 4096, nullptr,
     "The cuBLASLt library of the CUDA device: a file, a folder (a toolkit's, site-packages of PyTorch) or several, "
     "separated by ':'; auto: where the system finds it"},
    {"compute.cublas_algorithm_cache", kStr, "\"\"", 0, 4096, nullptr,
     "A file that keeps, for this GPU, driver and cuBLASLt, which algorithm is quickest for a product of a prompt; "
     "timed at start where it is missing or of another machine; empty: cuBLASLt's first proposal"},
    {"compute.text_threads", kInt, "2", 1, 64, nullptr, "Threads that tokenise and detokenise"},

    {"log.level", kStr, "\"info\"", 1, 8, "debug|info|warn|error", "Least severe line that is written"},
    {"log.format", kStr, "\"text\"", 1, 8, "text|json", "Form of the lines on stderr"},
};

constexpr auto kKeys = [] {
  std::array<ConfigKey, std::size(kListenAndModelKeys) + kBackendKeys.size() + std::size(kServerKeys)> keys{};
  auto* next = std::copy(std::begin(kListenAndModelKeys), std::end(kListenAndModelKeys), keys.begin());
  for (const BackendKey& key : kBackendKeys) {
    *next++ = {key.path.c_str(), kBool, "true", 0, 0, nullptr, key.description.c_str()};
  }
  std::copy(std::begin(kServerKeys), std::end(kServerKeys), next);
  return keys;
}();

}  // namespace

ConfigKeyTable ConfigKeys() {
  return {kKeys.data(), kKeys.size()};
}

}  // namespace dunlin::server
