// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/load_options.h"

#include "absl/strings/str_cat.h"
#include "tools/cli/client_options.h"
#include "tools/cli/finite_range.h"

namespace dunlin::cli {
namespace {

void AddTarget(CLI::App* app, tools::load::LoadOptions* o) {
  app->add_option("--address", o->address,
                  absl::StrCat("HOST:PORT of the server; default: ", kDefaultAddress,
                               ", or the environment's DUNLIN_ADDRESS; openai: ", kDefaultHttpAddress))
      ->group("Server");
  AddApiKeyOption(app, &o->api_key_file)->group("Server");
  AddTlsOptions(app, &o->request.tls);
  app->add_option("--protocol", o->protocol, "dunlin: Dunlin's gRPC API; openai: OpenAI-compatible HTTP with SSE")
      ->check(CLI::IsMember({"dunlin", "openai"}))
      ->capture_default_str()
      ->group("Server");
  app->add_option("--model", o->request.model, "Name of a served model")->required()->group("Server");
  app->add_option("--endpoint", o->endpoint, "openai: path to use instead of the default")->group("Server");
  app->add_option("--channels", o->request.num_channels, "dunlin: connections; 0: one per 90 concurrent requests")
      ->check(CLI::Range(0, 1024))
      ->group("Server");
  app->add_option("--connect-timeout-ms", o->connect_timeout_ms, "How long to wait for the server")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->capture_default_str()
      ->group("Server");
  app->add_option("--server-metrics", o->server_metrics,
                  "URL of the server's /metrics: memory, threads and KV pages before, during and after the run")
      ->group("Server");
}

void AddShape(CLI::App* app, tools::load::LoadOptions* o) {
  tools::load::LoadShape& shape = o->shape;
  auto* rate = app->add_option("--rate", shape.rate, "Open loop: requests per second, independent of responses")
                   ->check(FiniteRange(0.001, 1e6))
                   ->group("Load");
  app->add_option("--arrivals", o->arrivals, "With --rate: poisson, constant, or burst")
      ->check(CLI::IsMember({"poisson", "constant", "burst"}))
      ->capture_default_str()
      ->group("Load");
  app->add_option("--burst", shape.burst, "Requests in each burst of --arrivals burst")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->group("Load");
  app->add_option("--concurrency", shape.concurrency, "Closed loop: requests in flight at any time")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->excludes(rate)
      ->group("Load");
  app->add_option("--num-prompts,--num-requests", shape.num_requests,
                  "Stop sending after this many; default without --duration: 100")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group("Load");
  app->add_option("--duration", shape.duration_s, "Stop sending after this many seconds")
      ->check(FiniteRange(0.01, 86400.0))
      ->group("Load");
  app->add_option("--warmup", shape.warmup_s, "Seconds before the measurement; requests are sent but not counted")
      ->check(FiniteRange(0.0, 3600.0))
      ->group("Load");
  app->add_option("--drain", shape.drain_s, "Seconds to wait at the end for requests in flight")
      ->check(FiniteRange(0.0, 3600.0))
      ->capture_default_str()
      ->group("Load");
  app->add_option("--timeout-ms", o->request.timeout_ms, "Deadline of each request; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{86400000}))
      ->group("Load");
  app->add_option("--cancel-after", o->cancel_after, "Cancel requests after a number of tokens (5t) or a time (50ms)")
      ->group("Load");
  app->add_option("--cancel-fraction", shape.cancel_fraction, "Fraction of the requests that --cancel-after applies to")
      ->check(FiniteRange(0.0, 1.0))
      ->capture_default_str()
      ->group("Load");
  app->add_option("--seed", shape.seed, "Seed of arrivals, prompts and sampling: the same seed sends the same requests")
      ->group("Load");
}

void AddData(CLI::App* app, tools::load::LoadOptions* o) {
  tools::load::DatasetOptions& data = o->data;
  const CLI::Range tokens(1, 1 << 20);
  app->add_option("--dataset", o->dataset,
                  "random; shared-prefix; repeated: a phrase again and again; sharegpt: a ShareGPT JSON file; jsonl: "
                  "lines with \"prompt\" or \"token_ids\", "
                  "and \"max_tokens\"")
      ->check(CLI::IsMember({"random", "shared-prefix", "repeated", "sharegpt", "jsonl"}))
      ->capture_default_str()
      ->group("Requests");
  app->add_option("--dataset-path", data.path, "The file of sharegpt or jsonl")->group("Requests");
  app->add_option("--input-len,--input-tokens", data.input_tokens,
                  "Prompt length with random; with shared-prefix, length of the part after the prefix")
      ->check(tokens)
      ->capture_default_str()
      ->group("Requests");
  app->add_option("--output-len,--output-tokens", data.output_tokens, "Tokens to generate")
      ->check(tokens)
      ->capture_default_str()
      ->group("Requests");
  app->add_option("--range-ratio", data.range_ratio, "Lengths vary by up to this fraction in both directions")
      ->check(FiniteRange(0.0, 0.999))
      ->group("Requests");
  app->add_option("--prefix-tokens", data.prefix_tokens,
                  "Length of each shared prefix; with repeated, of the longest phrase")
      ->check(tokens)
      ->capture_default_str()
      ->group("Requests");
  app->add_option("--num-prefixes", data.num_prefixes, "Number of shared prefixes")
      ->check(tokens)
      ->capture_default_str()
      ->group("Requests");
  app->add_option("--prompt-form", o->prompt_form,
                  "Random prompts as token ids or as words; auto: token ids if the vocabulary size is known")
      ->check(CLI::IsMember({"auto", "tokens", "words"}))
      ->capture_default_str()
      ->group("Requests");
  app->add_option("--vocab-size", data.vocab_size, "Bound of random token ids if the server does not report one")
      ->check(tokens)
      ->capture_default_str()
      ->group("Requests");
  app->add_flag("--no-ignore-eos", o->no_ignore_eos, "Stop at the end-of-sequence token")->group("Requests");
  app->add_option("--temperature", o->request.temperature, "0: greedy decoding")
      ->check(FiniteRange(0.0, 100.0))
      ->group("Requests");
  app->add_flag("--chat", o->request.chat,
                "Each prompt is the user's message of a chat; openai: /v1/chat/completions instead of /v1/completions")
      ->group("Requests");
  app->add_option("--mix", o->mix,
                  "Mix of profiles, BACKEND:PRECISION=WEIGHT,..., each reported separately; openai: servers of Dunlin")
      ->group("Requests");
  app->add_flag("--allow-fallback", o->request.allow_fallback,
                "Use another backend if the named one is not supported; openai: servers of Dunlin")
      ->group("Requests");
  app->add_option("--speculation", o->request.speculation,
                  "Tokens that a step guesses at most: off, auto, or a number; openai: servers of Dunlin")
      ->group("Requests");
  app->add_flag("--omit-text", o->request.omit_text, "dunlin: receive token ids without text")->group("Requests");
  app->add_flag("--token-ids", o->request.token_ids,
                "openai: receive token ids beside the text, of servers that know return_token_ids")
      ->group("Requests");
}

void AddSweep(CLI::App* app, tools::load::LoadOptions* o) {
  app->add_flag("--sweep", o->sweep,
                "Find the knee: repeat with increasing load, starting at --rate or --concurrency, until goodput stops "
                "rising")
      ->group("Sweep");
  app->add_option("--sweep-factor", o->search.factor, "Factor by which the load grows from step to step")
      ->check(FiniteRange(1.05, 100.0))
      ->capture_default_str()
      ->group("Sweep");
  app->add_option("--sweep-steps", o->search.max_steps,
                  "Maximum number of steps, of --duration seconds each (default 10)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group("Sweep");
  app->add_option("--sweep-refinements", o->search.refinements,
                  "Number of steps reserved for bisecting between the last two loads")
      ->check(CLI::Range(0, 16))
      ->capture_default_str()
      ->group("Sweep");
  app->add_option("--sweep-goodput-ratio", o->search.min_ratio, "Fraction of the requests that must meet the SLO")
      ->check(FiniteRange(0.0, 1.0))
      ->capture_default_str()
      ->group("Sweep");
}

void AddResult(CLI::App* app, tools::load::LoadOptions* o) {
  app->add_option("--slo", o->slo,
                  "Limits that a good request meets: ttft_ms=200,tpot_ms=30,itl_ms=50,e2el_ms=5000, or some of these")
      ->group("Result");
  app->add_option(
         "--check", o->checks,
         "KEY<=NUMBER or KEY>=NUMBER on a key of the JSON result; exit status 1 if it does not hold; repeatable")
      ->group("Result");
  app->add_option(
         "--max-errors", o->shape.max_errors,
         "Abort with exit status 1 after more failed requests than this, not counting refused, late and cancelled ones")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->group("Result");
  app->add_option("--json", o->json_file, "Write the result as JSON; -: to stdout, replacing the tables")
      ->group("Result");
  app->add_option("--report", o->report_file, "Write an HTML page with the results and charts")->group("Result");
  app->add_option("--charts", o->charts_dir, "Write the charts as SVG into this folder, creating it if needed")
      ->group("Result");
  app->add_option("--label", o->label, "A label stored in the JSON result")->group("Result");
  app->add_flag("--quiet", o->quiet, "No progress line")->group("Result");
}

}  // namespace

const char kLoadFooter[] =
    "Examples:\n"
    "  dunlin load --model demo --concurrency 32 --duration 20 --input-len 32 --output-len 64\n"
    "  dunlin load --model demo --rate 50 --duration 30 --slo ttft_ms=200,itl_ms=50 --check 'goodput_ratio>=0.99'\n"
    "  dunlin load --model demo --rate 20 --mix flash:bf16=3,math:fp32=1 --json result.json\n"
    "  dunlin load --protocol openai --address 127.0.0.1:8080 --model demo --concurrency 8 --chat\n"
    "  dunlin load --protocol openai --address 127.0.0.1:8080 --model demo --prompt-form tokens --vocab-size 4096\\\n"
    "      --token-ids --concurrency 8: the requests and the figures of --protocol dunlin with the same --seed\n"
    "Metrics. Times are in milliseconds; percentiles are nearest-rank, with an error of at most 0.4%:\n"
    "  start       of TTFT and E2E. Open loop (--rate): the scheduled send time, so that a slow server or client\n"
    "              cannot hide latency by delaying the next request; closed loop: the actual send time\n"
    "  TTFT        start to the first message with a token, over completed requests\n"
    "  ITL         time between two messages with tokens, over all requests. A message of several tokens counts once,\n"
    "              with its whole gap, as in vllm bench serve; mean_tokens_per_message gives their mean size\n"
    "  TPOT        (last token - first token) / (tokens - 1), over completed requests with two tokens or more\n"
    "  E2E (e2el)  start to the end of the call, over completed requests\n"
    "  refusal     actual send time to the status of a refused request: before any token, RESOURCE_EXHAUSTED,\n"
    "              UNAVAILABLE with a reason from the server, HTTP 429 or 503. Reasons are listed separately\n"
    "  send delay  scheduled to actual send time: the delay that the load generator itself adds. If it is large, the\n"
    "              generator is the bottleneck and the other figures say little about the server\n"
    "  beyond engine  E2E from the actual send time, minus the time from first scheduled to finished that the server\n"
    "              reports\n"
    "  duration    first counted request to the end of the last; the divisor of all rates. Tokens are those of\n"
    "              completed requests: token ids with gRPC; with openai `usage`, else max_tokens of a response that\n"
    "              ended for its length, else those of its messages\n"
    "  message with a token  of gRPC, and of openai with --token-ids, one that has token ids; else of openai one that "
    "has\n"
    "              text, reasoning or tool calls, counted as one token. Tokens whose text the server holds back are\n"
    "              then no message\n"
    "  goodput     completed requests per second that meet every limit of --slo; itl_ms is the longest gap of a\n"
    "              request. goodput_ratio is their share of all sent requests that --cancel-after did not cancel\n"
    "  failed      ended neither OK nor by a refusal, a passed deadline (deadline), --cancel-after (cancelled) or the\n"
    "              end of the run (unfinished). The reason is the server's own where its error has one: ErrorInfo of\n"
    "              gRPC, the `code` of OpenAI's error object; else the status, or TRANSPORT, EARLY_END, BAD_EVENT\n"
    "  load generator  CPU time of this process from the first counted request on, in all and for each token received\n"
    "Exit status: 0 done, 1 refused, failures alone, a failed --check, more than --max-errors, or interrupted, 2 "
    "usage\n"
    "error.";

void AddLoadOptions(CLI::App* subcommand, tools::load::LoadOptions* options) {
  AddTarget(subcommand, options);
  AddShape(subcommand, options);
  AddData(subcommand, options);
  AddSweep(subcommand, options);
  AddResult(subcommand, options);
}

}  // namespace dunlin::cli
