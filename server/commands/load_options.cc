// SPDX-License-Identifier: Apache-2.0
#include "server/commands/load_options.h"

namespace dunlin::server {
namespace {

void AddTarget(CLI::App* app, tools::load::LoadOptions* o) {
  app->add_option("--address", o->address, "HOST:PORT of the server")->group("Server");
  app->add_option("--protocol", o->protocol, "dunlin: its own gRPC; openai: OpenAI-compatible HTTP with SSE")
      ->check(CLI::IsMember({"dunlin", "openai"}))
      ->group("Server");
  app->add_option("--model", o->request.model, "A model that is served")->required()->group("Server");
  app->add_flag("--chat", o->request.chat, "openai: /v1/chat/completions instead of /v1/completions")->group("Server");
  app->add_option("--endpoint", o->endpoint, "openai: another path")->group("Server");
  app->add_option("--channels", o->request.num_channels, "dunlin: connections; 0: one per 90 concurrent requests")
      ->check(CLI::Range(0, 1024))
      ->group("Server");
  app->add_option("--connect-timeout-ms", o->connect_timeout_ms, "How long to wait for the server")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->group("Server");
  app->add_option("--server-metrics", o->server_metrics,
                  "URL of the server's /metrics: memory, threads and KV pages before, during and after the run")
      ->group("Server");
}

void AddShape(CLI::App* app, tools::load::LoadOptions* o) {
  tools::load::LoadShape& shape = o->shape;
  auto* rate = app->add_option("--rate", shape.rate, "Open loop: requests a second, independent of the responses")
                   ->check(CLI::Range(0.001, 1e6))
                   ->group("Load");
  app->add_option("--arrivals", o->arrivals, "With --rate: poisson, constant, or burst")
      ->check(CLI::IsMember({"poisson", "constant", "burst"}))
      ->group("Load");
  app->add_option("--burst", shape.burst, "Requests in each burst of --arrivals burst")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->group("Load");
  app->add_option("--concurrency", shape.concurrency, "Closed loop: requests in flight at any time")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->excludes(rate)
      ->group("Load");
  app->add_option("--num-prompts,--num-requests", shape.num_requests,
                  "Stop sending after this many; 100 without --duration")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group("Load");
  app->add_option("--duration", shape.duration_s, "Stop sending after this many seconds")
      ->check(CLI::Range(0.01, 86400.0))
      ->group("Load");
  app->add_option("--warmup", shape.warmup_s, "Seconds before that: requests are sent but not counted")
      ->check(CLI::Range(0.0, 3600.0))
      ->group("Load");
  app->add_option("--drain", shape.drain_s, "Seconds that the last requests get to finish")
      ->check(CLI::Range(0.0, 3600.0))
      ->group("Load");
  app->add_option("--timeout-ms", o->request.timeout_ms, "Deadline of each request; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{86400000}))
      ->group("Load");
  app->add_option("--cancel-after", o->cancel_after, "Cancel requests after some tokens (5t) or some time (50ms)")
      ->group("Load");
  app->add_option("--cancel-fraction", shape.cancel_fraction, "Share of the requests that --cancel-after applies to")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Load");
  app->add_option("--seed", shape.seed, "Seed of arrivals, prompts and sampling: the same seed sends the same requests")
      ->group("Load");
}

void AddData(CLI::App* app, tools::load::LoadOptions* o) {
  tools::load::DatasetOptions& data = o->data;
  const CLI::Range tokens(1, 1 << 20);
  app->add_option(
         "--dataset", o->dataset,
         "random; shared-prefix; sharegpt: a ShareGPT JSON file; jsonl: lines with \"prompt\" or \"token_ids\", "
         "and \"max_tokens\"")
      ->check(CLI::IsMember({"random", "shared-prefix", "sharegpt", "jsonl"}))
      ->group("Requests");
  app->add_option("--dataset-path", data.path, "File of sharegpt and jsonl")->group("Requests");
  app->add_option("--input-len,--input-tokens", data.input_tokens,
                  "Prompt length of random; with shared-prefix, of what follows the prefix")
      ->check(tokens)
      ->group("Requests");
  app->add_option("--output-len,--output-tokens", data.output_tokens, "Tokens to generate")
      ->check(tokens)
      ->group("Requests");
  app->add_option("--range-ratio", data.range_ratio, "Lengths vary by this fraction up and down")
      ->check(CLI::Range(0.0, 0.999))
      ->group("Requests");
  app->add_option("--prefix-tokens", data.prefix_tokens, "Length of each shared prefix")
      ->check(tokens)
      ->group("Requests");
  app->add_option("--num-prefixes", data.num_prefixes, "Number of shared prefixes")->check(tokens)->group("Requests");
  app->add_option("--prompt-form", o->prompt_form,
                  "Random prompts as tokens or as words; auto: tokens where the vocabulary's size is known")
      ->check(CLI::IsMember({"auto", "tokens", "words"}))
      ->group("Requests");
  app->add_option("--vocab-size", data.vocab_size, "Bound of random token ids, where the server does not report it")
      ->check(tokens)
      ->group("Requests");
  app->add_flag("--no-ignore-eos", o->no_ignore_eos, "Let the model end its responses")->group("Requests");
  app->add_option("--temperature", o->request.temperature, "0 is greedy")
      ->check(CLI::Range(0.0F, 100.0F))
      ->group("Requests");
  app->add_option("--mix", o->mix,
                  "dunlin: profiles and their shares, BACKEND:PRECISION=WEIGHT,..., each reported separately")
      ->group("Requests");
  app->add_flag("--allow-fallback", o->request.allow_fallback,
                "dunlin: allow another backend where the named one is not supported")
      ->group("Requests");
  app->add_flag("--omit-text", o->request.omit_text, "dunlin: token ids without text")->group("Requests");
}

void AddSweep(CLI::App* app, tools::load::LoadOptions* o) {
  app->add_flag("--sweep", o->sweep,
                "Find the knee: repeat with more load, from --rate or --concurrency on, until goodput stops rising")
      ->group("Sweep");
  app->add_option("--sweep-factor", o->search.factor, "Growth of the load from step to step")
      ->check(CLI::Range(1.05, 100.0))
      ->group("Sweep");
  app->add_option("--sweep-steps", o->search.max_steps, "At most this many steps of --duration seconds (10) each")
      ->check(CLI::Range(1, 64))
      ->group("Sweep");
  app->add_option("--sweep-refinements", o->search.refinements,
                  "How many of these bisect between the last two loads at the end")
      ->check(CLI::Range(0, 16))
      ->group("Sweep");
  app->add_option("--sweep-goodput-ratio", o->search.min_ratio, "Fraction of the requests that must be good")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Sweep");
}

void AddResult(CLI::App* app, tools::load::LoadOptions* o) {
  app->add_option("--slo", o->slo,
                  "Limits of a good request: ttft_ms=200,tpot_ms=30,itl_ms=50,e2el_ms=5000, or some of these")
      ->group("Result");
  app->add_option(
         "--check", o->checks,
         "KEY<=NUMBER or KEY>=NUMBER on a key of the JSON result; exit status 1 when it does not hold; repeatable")
      ->group("Result");
  app->add_option(
         "--max-errors", o->shape.max_errors,
         "More failed requests than this (refused, late and cancelled ones excluded) end the run with exit status 1")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->group("Result");
  app->add_option("--json", o->json_file, "Write the result as JSON; - is stdout, in place of the tables")
      ->group("Result");
  app->add_option("--report", o->report_file, "Write one HTML page with the figures and their charts")->group("Result");
  app->add_option("--charts", o->charts_dir, "Write the charts as SVG into this folder, which is created")
      ->group("Result");
  app->add_option("--label", o->label, "A name that the JSON result carries")->group("Result");
  app->add_flag("--quiet", o->quiet, "No progress line")->group("Result");
}

}  // namespace

const char kLoadFooter[] =
    "Examples:\n"
    "  dunlin load --model demo --concurrency 32 --duration 20 --input-len 32 --output-len 64\n"
    "  dunlin load --model demo --rate 50 --duration 30 --slo ttft_ms=200,itl_ms=50 --check 'goodput_ratio>=0.99'\n"
    "  dunlin load --model demo --rate 20 --mix flash:bf16=3,math:fp32=1 --json result.json\n"
    "  dunlin load --protocol openai --address 127.0.0.1:8000 --model gpt2 --concurrency 8 --chat\n"
    "What is measured, in milliseconds; nearest-rank percentiles, off by at most 0.4%:\n"
    "  from        open loop (--rate): the moment at which the schedule wanted a request sent, so that a slow server\n"
    "              (or client) cannot hide by delaying the next one; closed loop: the moment it was sent\n"
    "  TTFT        to the first message with a token, of completed requests\n"
    "  ITL         between two messages with tokens, of all requests. A message of several tokens counts once, with\n"
    "              its whole gap, as in vllm bench serve; mean_tokens_per_message says how many they were\n"
    "  TPOT        (last token - first token) / (tokens - 1), of completed requests with two tokens or more\n"
    "  E2E (e2el)  to the end of the call, of completed requests\n"
    "  refusal     from when it was really sent to the status of a refused request: RESOURCE_EXHAUSTED, UNAVAILABLE\n"
    "              with the server's own reason, HTTP 429 or 503, before any token. Reasons are listed apart\n"
    "  send delay  from intended to really sent: what the load generator itself adds. When it is large, the\n"
    "              generator is the bottleneck and the rest says little about the server\n"
    "  beyond engine  E2E from really sent, less the time from first scheduled to finished that the server reports\n"
    "  duration    from the first counted request to the end of the last; rates are over it. Tokens are those of\n"
    "              completed requests: token ids with gRPC; with openai `usage`, else max_tokens of an answer that\n"
    "              ended for its length, else its chunks with text\n"
    "  goodput     completed requests a second that meet every limit of --slo; itl_ms is the longest gap of a "
    "request.\n"
    "              goodput_ratio is their part of all sent, without those that --cancel-after cancelled\n"
    "  failed      any end but OK, a refusal, a passed deadline (deadline), --cancel-after (cancelled) and running "
    "still\n"
    "              at the end (unfinished)\n"
    "Exit status: 0 done, 1 refused, a --check or --max-errors missed, or interrupted, 2 wrong usage.";

void AddLoadOptions(CLI::App* subcommand, tools::load::LoadOptions* options) {
  AddTarget(subcommand, options);
  AddShape(subcommand, options);
  AddData(subcommand, options);
  AddSweep(subcommand, options);
  AddResult(subcommand, options);
}

}  // namespace dunlin::server
