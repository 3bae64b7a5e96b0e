// SPDX-License-Identifier: Apache-2.0
#include "server/config/key_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/request/fp8_recipe.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/config/adapter_keys.h"
#include "server/config/backend_keys.h"
#include "server/config/image_keys.h"
#include "server/config/key_setters.h"
#include "server/config/static_text.h"
#include "text/chat_output/parser_names.h"

namespace dunlin::server {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kTiB = kMiB * kMiB;
constexpr auto kStr = KeyType::kString;
constexpr auto kInt = KeyType::kInteger;
constexpr auto kIntOrAuto = KeyType::kIntegerOrAuto;
constexpr auto kBool = KeyType::kBool;
constexpr auto kList = KeyType::kStringList;

constexpr StaticText kDeviceChoices = ChoicesOf(kernels::kDeviceKindTable, "auto");
constexpr StaticText kPrecisionChoices = ChoicesOf(kernels::kPrecisionTable);
constexpr StaticText kBackendChoices = ChoicesOf(kernels::kAttentionBackendTable);
constexpr StaticText kRecipeChoices = ChoicesOf(engine::kFp8RecipeTable);

constexpr ConfigKey kListenAndModelKeys[] = {
    {"listen.grpc", kStr, "\"127.0.0.1:50051\"", 3, 255, nullptr, "Address of the gRPC port; port 0 picks a free port",
     Set<&Config::grpc_address>},
    {"listen.http", kStr, "\"127.0.0.1:8080\"", 3, 255, nullptr,
     "Address of the HTTP port: /metrics, /healthz, /readyz, and the APIs of protocols.*; port 0 picks a free port",
     Set<&Config::http_address>},
    {"listen.http_cors_origins", kStr, "\"\"", 0, 4096, nullptr,
     "Origins, separated by spaces, whose web pages may call the APIs on listen.http (CORS), as in "
     "\"https://chat.example\"; \"*\": all; empty: none",
     Set<&Config::http_cors_origins>},
    {"listen.http_host_names", kStr, "\"\"", 0, 4096, nullptr,
     "Names, separated by spaces, that clients may call listen.http by (the Host header, without the port) besides "
     "localhost and IP addresses, while there are no keys: other names are refused, so that no web page reaches the "
     "server by a name of its own (DNS rebinding); \"*\": all",
     Set<&Config::http_host_names>},
    {"listen.reflection", kStr, "\"auto\"", 1, 8, "auto|on|off",
     "gRPC reflection; auto: on if listen.grpc is a loopback address", Set<&Config::reflection>},

    {"tls.cert_file", kStr, "\"\"", 0, 4096, nullptr,
     "Certificate of both ports (PEM: the server's, then those of intermediate authorities), which then speak TLS 1.2 "
     "and 1.3 alone; empty: no TLS. Relative paths are resolved against the config file's folder; files that change "
     "are read again"},
    {"tls.key_file", kStr, "\"\"", 0, 4096, nullptr, "Private key of the certificate (PEM, without a passphrase)"},
    {"tls.client_ca_file", kStr, "\"\"", 0, 4096, nullptr,
     "Authorities of client certificates (PEM), of one of which clients have one (mutual TLS); empty: they show none"},
    {"tls.require_client_certificate", kBool, "true", 0, 0, nullptr,
     "With tls.client_ca_file: refuse clients without a certificate; false: verify those that are shown"},
    {"access.behind_proxy", kBool, "false", 0, 0, nullptr,
     "A proxy, or the network around the server, keeps strangers out: listen on addresses that other machines can "
     "reach even without TLS or keys",
     Set<&Config::behind_proxy>},
    {"access.admin_without_keys", kBool, "false", 0, 0, nullptr,
     "Without keys, take calls that need the permission \"admin\" also on addresses that other machines can reach, or "
     "behind a proxy: nobody but operators and their routers can reach them",
     Set<&Config::admin_without_keys>},
    {"access.keys_file", kStr, "\"\"", 0, 4096, nullptr,
     "File of the keys that callers need, as hashes (docs/security.md); read again when it changes; relative paths are "
     "resolved against the config file's folder; empty: everybody may call",
     Set<&Config::keys_file>},
    {"protocols.kserve", kBool, "true", 0, 0, nullptr,
     "Serve the Open Inference Protocol (KServe v2) on listen.grpc and listen.http"},
    {"protocols.ollama", kBool, "true", 0, 0, nullptr, "Serve Ollama's API on listen.http (docs/ollama.md)"},
    {"protocols.openai.enabled", kBool, "true", 0, 0, nullptr,
     "Serve the APIs of OpenAI and Anthropic on listen.http; protocols.openai may be true or false instead of an "
     "object"},
    {"protocols.openai.strict", kBool, "false", 0, 0, nullptr,
     "Refuse requests with members that the API does not have, and with tools that cannot be run; false: these have no "
     "effect, and the response names them in x-dunlin-ignored"},
    {"protocols.page", kBool, "true", 0, 0, nullptr, "Status page and playground at / of listen.http (docs/page.md)"},
    {"protocols.vllm_engine", kBool, "true", 0, 0, nullptr,
     "Serve vllm.grpc.engine.VllmEngine, the contract of smg's workers, on listen.grpc"},
    {"protocols.vllm_engine_model", kStr, "\"\"", 0, 128, nullptr,
     "Model that VllmEngine stands for, whose requests name none; a profile may stand behind it (name@flash-fp8); "
     "empty: the first model that generates, and the first encoder"},
    {"profile_aliases", kBool, "false", 0, 0, nullptr,
     "List every profile of a model as a model of its own, name@BACKEND-PRECISION; requests may use these names either "
     "way",
     Set<&Config::profile_aliases>},
    {"protocols.vllm", kBool, "true", 0, 0, nullptr, "Serve vllm.Inference and vllm.Control on listen.grpc"},

    {"model_repository.path", kStr, "\"\"", 0, 4096, nullptr,
     "Folder with models, MODEL/VERSION, whose largest versions are served as if models[] had them; a member of "
     "models[] with such a name and no path has the other keys; empty: none",
     Set<&Config::model_repository>},
    {"model_repository.poll_s", kInt, "5", 0, 86400, nullptr,
     "How often to look for new models and versions in it; 0: at the start and with SIGHUP alone",
     Set<&Config::model_repository_poll_s>},
    {"model_repository.settle_s", kInt, "5", 0, 86400, nullptr,
     "Time that the files of a version must be unchanged before it is loaded", Set<&Config::model_repository_settle_s>},
    {"models[].name", kStr, nullptr, 1, 128, nullptr, "Model name that requests use"},
    {"models[].path", kStr, "\"\"", 0, 4096, nullptr,
     "Hugging Face model directory or GGUF file; relative paths are resolved against the config file's folder"},
    {"models[].weights", kStr, "\"files\"", 1, 8, "files|random",
     "files: load the weights from path; random: random weights of the given shape, for benchmarks"},
    {"models[].shape", kStr, "\"\"", 0, 4096, nullptr,
     "With random weights: gpt2-124m, gpt2-xl, llama-1b, llama-8b, qwen3-0.6b, mistral-7b, qwen3-30b-a3b-8l, "
     "deepseek-v2-lite-4l, or the path of a config.json"},
    {"models[].seed", kInt, "0", 0, INT64_MAX, nullptr, "Seed of random weights"},
    {"models[].device", kStr, "\"auto\"", 1, 8, kDeviceChoices.c_str(),
     "Device to run on; auto: a CUDA device if one can be opened, else the CPU"},
    {"models[].precisions", kList, "[\"bf16\"]", 0, kernels::kNumPrecisions, kPrecisionChoices.c_str(),
     "Precisions to keep in memory; requests use the first by default. Empty: bf16, or int4 or int8 for a "
     "checkpoint of such codes, which are then multiplied as they are"},
    {"models[].allowed.attention_backends", kList, "[]", 0, kernels::kNumAttentionBackends, kBackendChoices.c_str(),
     "Attention backends that requests may use; empty: all"},
    {"models[].allowed.precisions", kList, "[]", 0, kernels::kNumPrecisions, kPrecisionChoices.c_str(),
     "Precisions that requests may use, the first of models[].precisions among them; empty: all"},
    {"models[].allowed.min_priority", kInt, "-100", -engine::kMaxPriority, 0, nullptr,
     "Lowest priority that requests may ask for"},
    {"models[].allowed.max_priority", kInt, "100", 0, engine::kMaxPriority, nullptr,
     "Highest priority that requests may ask for"},
    {"models[].fp8.recipe", kStr, "\"per_token\"", 1, 16, kRecipeChoices.c_str(),
     "Scaling of FP8 inputs: per_token: one scale per row; static: calibrated constants; current: the largest "
     "magnitude of the batch; delayed: that of previous steps; current and delayed require deterministic = false"},
    {"models[].fp8.format", kStr, "\"hybrid\"", 1, 8, "hybrid|e4m3",
     "Accepted for compatibility with Transformer Engine configs; has no effect, since both formats quantise forward "
     "inputs to E4M3"},
    {"models[].fp8.amax_history_len", kInt, "16", 1, engine::kMaxAmaxHistory, nullptr,
     "delayed: number of steps in the history of largest magnitudes (amax)"},
    {"models[].fp8.amax_compute_algo", kStr, "\"max\"", 1, 16, "max|most_recent",
     "delayed: scale by the largest amax of the history, or by the most recent one"},
    {"models[].fp8.margin", kInt, "0", 0, engine::kMaxMargin, nullptr,
     "delayed: headroom of the scales for values 2^margin times larger"},
    {"models[].kv_cache.memory_bytes", kIntOrAuto, "\"auto\"", kMiB, kTiB, nullptr,
     "Size of the KV page pool, allocated at startup; auto: what the memory limit leaves beside weights and "
     "workspace of all models, at least one full context, at most scheduler.max_sequences contexts of up to 4096 "
     "tokens"},
    {"models[].kv_cache.fp8", kBool, "false", 0, 0, nullptr,
     "Store keys and values of FP8 requests as E4M3 with one scale per token and KV head, instead of BF16"},
    {"models[].kv_cache.event_batches", kInt, "0", 0, 1 << 20, nullptr,
     "Steps of which the changes of the prefix cache are kept, for routers that follow it; 0: nothing is recorded"},
    {"models[].kv_cache.events_endpoint", kStr, "\"\"", 0, 255, nullptr,
     "ZeroMQ endpoint that publishes the changes of the prefix cache, as in \"tcp://127.0.0.1:5557\"; port 0 picks a "
     "free port; needs event_batches; empty: none"},
    {"models[].kv_cache.events_replay_endpoint", kStr, "\"\"", 0, 255, nullptr,
     "ZeroMQ endpoint that repeats them from a number on; needs events_endpoint; empty: none"},
    {"models[].kv_cache.events_topic", kStr, "\"\"", 0, 128, nullptr, "First part of each published message"},
    {"models[].kv_cache.events_hwm", kInt, "100000", 1, 1 << 30, nullptr,
     "Published messages that wait for one subscriber; further ones are lost to it"},
    {"models[].max_context_tokens", kInt, "0", 0, 1 << 24, nullptr,
     "Maximum number of prompt and output tokens together; 0: the model's own limit"},
    {"models[].deterministic", kBool, "true", 0, 0, nullptr,
     "Responses never depend on the other requests in the batch; false allows the FP8 recipes current and delayed"},
    {"models[].idle_unload_s", kInt, "0", 0, 31536000, nullptr,
     "Load the model with its first request, unload it after this time without one, and load it again with the next; "
     "before that where another such model needs the memory; 0: loaded from the start on"},
    {"models[].load_wait_ms", kInt, "120000", 1, 86400000, nullptr,
     "With idle_unload_s: how long a request waits for the model to be loaded"},
    {"models[].golden.prompt", kStr, "\"\"", 0, 64 * kKiB, nullptr,
     "Text that a version must continue with golden.output before it serves, at the start too; empty: not checked"},
    {"models[].golden.output", kStr, "\"\"", 0, 64 * kKiB, nullptr,
     "The beginning of what the model says, without sampling, in its first precision"},
    {"models[].chat_template", kStr, "\"\"", 0, kMiB, nullptr,
     "Chat template, in place of the model's own: the path of a Jinja file, relative to the config file's folder, or "
     "the template itself, which has a \"{{\", a \"{%\" or a line break"},
    {"models[].chat_special_tokens", kBool, "false", 0, 0, nullptr,
     "Accept chat.parse_special_tokens: special tokens in the messages of a chat are then not plain text"},
    {"models[].tool_parser", kStr, "\"auto\"", 1, 32, text::kToolParserChoices,
     "The form in which the model writes tool calls; auto: as its chat template shows; none: calls stay text"},
    {"models[].reasoning_parser", kStr, "\"auto\"", 1, 32, text::kReasoningParserChoices,
     "The form in which the model writes what it thinks before it answers; auto: as its chat template shows; none: it "
     "stays text"},
    {"models[].int8_inputs", kBool, "false", 0, 0, nullptr,
     "Products of int8 and int4 weights round inputs to 8 bits in groups with a scale, not to BF16; CPU only"},
    {"models[].parallel.tensor", kInt, "1", 1, 64, nullptr, "Ranks that the model is divided among; at most 8 GPUs"},
    {"models[].parallel.devices", kList, "[]", 0, 8, "0|1|2|3|4|5|6|7", "CUDA devices of the ranks; empty: 0, 1, ..."},
    {"models[].speculation.tokens", kStr, "\"off\"", 1, 4, "off|auto|0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16",
     "Most tokens that a step guesses of a request and verifies, by default; auto: 8. Changes no output; CPU only"},
    {"models[].speculation.draft", kStr, "\"\"", 0, 4 * kKiB, nullptr,
     "A small model of the same vocabulary that guesses: a path, another model's name, or mtp: the checkpoint's own"},
    {"models[].speculation.draft_sequences", kInt, "4", 1, 64, nullptr,
     "Requests for which the draft model guesses at once; it rests while more are generating"},
    {"models[].execution", kStr, "\"fused\"", 1, 8, "fused|eager",
     "fused: fused kernels; eager: every operation of a module separately, as the reference and baseline for fused"},
};

constexpr ConfigKey kServerKeys[] = {
    {"scheduler.max_sequences", kInt, "64", 1, 1024, nullptr, "Maximum number of running sequences per model"},
    {"scheduler.max_tokens_per_step", kInt, "512", 1, 65536, nullptr,
     "Maximum number of tokens per step over all sequences; longer prompts are prefilled in chunks"},
    {"scheduler.max_queued_requests", kInt, "256", 1, 1 << 20, nullptr,
     "Maximum number of queued requests per model; further ones are refused with RESOURCE_EXHAUSTED"},
    {"scheduler.max_queued_tokens", kInt, "1048576", 1, int64_t{1} << 40, nullptr,
     "Maximum number of prompt tokens of queued requests per model"},
    {"scheduler.prefix_cache", kBool, "true", 0, 0, nullptr, "Reuse the KV pages of shared prompt prefixes"},
    {"scheduler.plan_ahead", kBool, "true", 0, 0, nullptr,
     "On CUDA: plan and enqueue the next step while one runs, over the tokens that it will draw"},
    {"scheduler.step_time_target_ms", kInt, "200", 0, 60000, nullptr,
     "While sequences generate, divide prompts so that a step takes about this long; 0: by max_tokens_per_step alone"},

    {"memory.limit_bytes", kIntOrAuto, "\"auto\"", 16 * kMiB, kTiB * 16, nullptr,
     "Host memory that the server plans with; auto: a share of what the machine and its control groups leave it"},
    {"memory.request_bytes", kIntOrAuto, "\"auto\"", 64 * kMiB, kTiB * 16, nullptr,
     "Of that, what requests and text workers may take; auto: a fifth, within what they need and what they can use"},
    {"memory.share_percent", kInt, "90", 1, 100, nullptr,
     "With memory.limit_bytes auto: that share, and the share of a device's own memory",
     SetIn<&Config::memory, &MemorySettings::share_percent>},

    {"limits.max_concurrent_requests", kInt, "512", 1, 1 << 20, nullptr,
     "Maximum number of requests accepted but not yet finished, over all models",
     kLimit<&Limits::max_concurrent_requests>},
    {"limits.max_queued_bytes", kInt, "67108864", kKiB, kTiB, nullptr,
     "Maximum total size of requests accepted but not yet tokenised", kLimit<&Limits::max_queued_bytes>},
    {"limits.max_output_bytes", kInt, "268435456", kMiB, kTiB, nullptr,
     "Maximum total size of the buffers between engine and clients, for tokens and log-probabilities of all requests "
     "in progress",
     kLimit<&Limits::max_output_bytes>},
    {"limits.max_streams_per_connection", kInt, "100", 1, 65535, nullptr,
     "Maximum number of HTTP/2 streams per connection", kLimit<&Limits::max_streams_per_connection>},
    {"limits.max_connections", kInt, "4096", 1, 1 << 20, nullptr,
     "Maximum number of open connections to listen.grpc; further ones are closed when they are accepted",
     kLimit<&Limits::max_connections>},
    {"limits.max_connections_per_address", kInt, "1024", 1, 1 << 20, nullptr,
     "Maximum number of open connections to listen.grpc from one client address",
     kLimit<&Limits::max_connections_per_address>},
    {"limits.max_connection_age_ms", kInt, "0", 0, 2000000000, nullptr,
     "A gRPC connection takes no further calls after this time, give or take a tenth; its client opens another; 0: "
     "unlimited",
     kLimit<&Limits::max_connection_age_ms>},
    {"limits.max_connection_age_grace_ms", kInt, "600000", 1000, 2000000000, nullptr,
     "How long calls may go on after that before the connection is closed",
     kLimit<&Limits::max_connection_age_grace_ms>},
    {"limits.max_ping_strikes", kInt, "100", 0, 1 << 20, nullptr,
     "Close a connection after this many pings less than 5 s apart without a call's data between them; 0: never",
     kLimit<&Limits::max_ping_strikes>},
    {"limits.max_abandoned_calls_per_second", kInt, "200", 10, 100000, nullptr,
     "Cut a gRPC connection that opens more calls than this, and a second's worth at once, without seeing them "
     "through (resets, deadlines that pass at once, half a call); 5 times as many are allowed to an address, 10 times "
     "to all",
     kLimit<&Limits::max_abandoned_calls_per_second>},
    {"limits.handshake_timeout_ms", kInt, "10000", 100, 3600000, nullptr,
     "Close a new gRPC connection that has not finished its TLS handshake and sent its HTTP/2 settings within this "
     "time",
     kLimit<&Limits::handshake_timeout_ms>},
    {"limits.max_message_memory_bytes", kInt, "536870912", 16 * kMiB, kTiB, nullptr,
     "Maximum memory that gRPC takes for connections and unread messages, all together; near it, gRPC reads more "
     "slowly",
     kLimit<&Limits::max_message_memory_bytes>},
    {"limits.max_http_connections", kInt, "4096", 1, 65535, nullptr,
     "Maximum number of open connections to listen.http; every request in progress takes one",
     Set<&Config::max_http_connections>},
    {"limits.max_http_connections_per_address", kInt, "1024", 1, 65535, nullptr,
     "Maximum number of open connections to listen.http from one client address",
     Set<&Config::max_http_connections_per_address>},
    {"limits.max_http_body_bytes", kInt, "4194304", kKiB, 256 * kMiB, nullptr, "Maximum size of an HTTP request's body",
     kLimit<&Limits::max_http_body_bytes>},
    {"limits.http_read_timeout_ms", kInt, "5000", 100, 3600000, nullptr,
     "Time for an HTTP client to send the header of a request, and the first bytes of its body; the rest of a body "
     "must come at 16 KB/s",
     Set<&Config::http_read_timeout_ms>},
    {"limits.http_idle_timeout_ms", kInt, "60000", 100, 86400000, nullptr,
     "Close an HTTP connection on which no further request has begun for this time",
     Set<&Config::http_idle_timeout_ms>},
    {"limits.sse_keepalive_ms", kInt, "15000", 0, 3600000, nullptr,
     "Send a comment on a stream of server-sent events after this time without an event; 0: never",
     Set<&Config::sse_keepalive_ms>},
    {"limits.max_message_bytes", kInt, "4194304", kKiB, 256 * kMiB, nullptr, "Maximum size of a gRPC message",
     kLimit<&Limits::max_message_bytes>},
    {"limits.max_metadata_bytes", kInt, "8192", kKiB, kMiB, nullptr, "Maximum size of a call's metadata",
     kLimit<&Limits::max_metadata_bytes>},
    {"limits.max_unsent_tokens", kInt, "1024", 1, 1 << 20, nullptr,
     "Maximum number of tokens that a client may lag behind before its stream is ended as a slow reader",
     kLimit<&Limits::max_unsent_tokens>},
    {"limits.busy_message_interval_ms", kInt, "50", 0, 10000, nullptr,
     "Under overload (requests were refused for lack of capacity within the last second), tokens that arrive within "
     "this time of a stream's previous message are held back and sent together; 0: each token is sent at once",
     kLimit<&Limits::busy_message_interval_ms>},
    {"limits.slow_reader_timeout_ms", kInt, "30000", 100, 86400000, nullptr,
     "A client that leaves a message unread for this time is cut off as a slow reader",
     kLimit<&Limits::slow_reader_timeout_ms>},
    {"limits.max_tokenising_bytes", kInt, "1048576", 64 * kKiB, kTiB, nullptr,
     "Maximum size of texts tokenised at once that have no place to cut them into pieces of 64 KiB; a larger one waits "
     "until it is alone. Each byte takes up to 120 bytes of memory meanwhile",
     kLimit<&Limits::max_tokenising_bytes>},
    {"limits.max_embedding_inputs", kInt, "256", 1, 1 << 16, nullptr,
     "Maximum number of inputs of an Embed call, or of documents of a Rerank call",
     kLimit<&Limits::max_embedding_inputs>},
    {"limits.default_max_tokens", kInt, "0", 0, 1 << 24, nullptr,
     "Default of stopping.max_tokens, as far as the context allows; 0: what the context leaves",
     kLimit<&Limits::default_max_tokens>},
    {"limits.retry_after_ms", kInt, "1000", 1, 3600000, nullptr, "Retry delay sent as RetryInfo when a queue is full",
     kLimit<&Limits::retry_after_ms>},
    {"limits.keepalive_time_ms", kInt, "30000", 1000, 86400000, nullptr,
     "Ping a connection after this time without activity", kLimit<&Limits::keepalive_time_ms>},
    {"limits.keepalive_timeout_ms", kInt, "10000", 1000, 86400000, nullptr,
     "Close the connection if the ping is not answered within this time", kLimit<&Limits::keepalive_timeout_ms>},
    {"limits.drain_timeout_ms", kInt, "25000", 0, 86400000, nullptr,
     "After SIGTERM, how long calls in flight may continue before they are ended", Set<&Config::drain_timeout_ms>},

    {"health.stall_ms", kInt, "10000", 1000, 86400000, nullptr,
     "Time without progress after which an engine with work, the text threads or a port's threads count as stalled: "
     "health says NOT_SERVING and requests are refused until it goes on; must exceed the longest single operation",
     Set<&Config::stall_ms>},
    {"health.exit_after_ms", kInt, "60000", 0, 86400000, nullptr,
     "Time that a stall may last until the process exits with status 71; 0: it never does",
     Set<&Config::exit_after_ms>},

    {"compute.threads", kInt, "0", 0, 1024, nullptr,
     "CPU compute threads; 0: one for every CPU available to the process",
     SetIn<&Config::device, &kernels::DeviceOptions::num_threads>},
    {"compute.cpu_variant", kStr, "\"auto\"", 1, 16,
     "auto|portable|avx2|avx512|avx512_bf16|amx_bf16|neon|neon_dot|neon_i8mm|neon_bf16",
     "CPU kernel variant; auto: the best one", SetIn<&Config::device, &kernels::DeviceOptions::cpu_variant>},
    {"compute.cuda_module", kStr, "\"auto\"", 1, 4096, nullptr,
     "Shared library with the CUDA backend; auto: libdunlin_cuda.so next to the binary",
     SetIn<&Config::device, &kernels::DeviceOptions::cuda_module>},
    {"compute.cublas_library", kStr, "\"auto\"", 1, 4096, nullptr,
     "cuBLASLt library of the CUDA device: a file, a folder (of a toolkit, or the site-packages of PyTorch), or "
     "several separated by ':'; auto: the system's search path",
     SetIn<&Config::device, &kernels::DeviceOptions::cublas_library>},
    {"compute.cublas_algorithm_cache", kStr, "\"\"", 0, 4096, nullptr,
     "File that caches the fastest cuBLASLt algorithms and tile shapes for GEMMs on this GPU, driver and cuBLASLt "
     "version; measured at startup if missing or from another machine; empty: cuBLASLt's first heuristic",
     SetIn<&Config::device, &kernels::DeviceOptions::cublas_algorithm_cache>},
    {"compute.sm90_kernels", kBool, "true", 0, 0, nullptr,
     "On a GPU of compute capability 9.0, use the kernels made for it, each checked when the device is opened; false: "
     "those of older GPUs and cuBLASLt",
     SetIn<&Config::device, &kernels::DeviceOptions::sm90_kernels>},
    {"compute.cuda_graphs", kBool, "true", 0, 0, nullptr,
     "On a GPU, record decode steps that repeat and launch each as one CUDA graph, for models with execution fused; "
     "false: every operation is launched by itself",
     SetIn<&Config::device, &kernels::DeviceOptions::cuda_graphs>},
    {"compute.text_threads", kInt, "2", 1, 64, nullptr, "Threads for tokenisation and detokenisation",
     Set<&Config::text_threads>},

    {"log.level", kStr, "\"info\"", 1, 8, "debug|info|warn|error", "Least severe level that is logged",
     Set<&Config::log_level>},
    {"log.format", kStr, "\"text\"", 1, 8, "text|json", "Format of log lines on stderr", Set<&Config::log_format>},

    {"tracing.otlp_endpoint", kStr, "\"\"", 0, 255, nullptr,
     "Collector that takes a span of every request as OTLP over gRPC, as in \"collector:4317\", or with TLS "
     "\"https://collector:4317\"; empty: none"},
    {"tracing.ca_file", kStr, "\"\"", 0, 4096, nullptr,
     "Authorities of the collector's certificate (PEM), read at start; relative paths are resolved against the config "
     "file's folder; empty: those of the system"},
    {"tracing.cert_file", kStr, "\"\"", 0, 4096, nullptr,
     "Certificate that the server shows to the collector (PEM), read at start; empty: none"},
    {"tracing.key_file", kStr, "\"\"", 0, 4096, nullptr, "Private key of that certificate (PEM, without a passphrase)"},
    {"tracing.service_name", kStr, "\"dunlin\"", 1, 128, nullptr, "service.name of the spans"},
    {"tracing.sample_per_million", kInt, "1000000", 0, 1000000, nullptr,
     "Requests of a million that have a span, of those without a valid traceparent; the others follow its sampled "
     "flag"},
    {"tracing.queue_spans", kInt, "2048", 1, 65536, nullptr,
     "Maximum number of spans that wait for the collector; further ones are dropped and counted"},
    {"tracing.export_timeout_ms", kInt, "10000", 100, 60000, nullptr,
     "Time that the collector may take to answer; then the spans are sent again, a few times"},
};

constexpr auto kKeys = [] {
  constexpr size_t kOthers =
      std::size(kListenAndModelKeys) + std::size(kAdapterKeys) + std::size(kImageKeys) + std::size(kServerKeys);
  std::array<ConfigKey, kOthers + kBackendKeys.size()> keys{};
  auto* next = std::copy(std::begin(kListenAndModelKeys), std::end(kListenAndModelKeys), keys.begin());
  next = std::copy(std::begin(kAdapterKeys), std::end(kAdapterKeys), next);
  next = std::copy(std::begin(kImageKeys), std::end(kImageKeys), next);
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
