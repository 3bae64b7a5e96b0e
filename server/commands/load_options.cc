#include "server/commands/load_options.h"

namespace dunlin::server {
namespace {

void AddTarget(CLI::App* app, load::LoadOptions* o) {
  app->add_option("--address", o->address, "HOST:PORT of the server")->group("Server");
  app->add_option("--protocol", o->protocol, "dunlin: its own gRPC; openai: OpenAI-compatible HTTP with SSE")
      ->check(CLI::IsMember({"dunlin", "openai"}))
      ->group("Server");
  app->add_option("--model", o->request.model, "A model that is served")->required()->group("Server");
  app->add_flag("--chat", o->request.chat, "openai: /v1/chat/completions instead of /v1/completions")->group("Server");
  app->add_option("--endpoint", o->endpoint, "openai: another path")->group("Server");
  app->add_option("--channels", o->request.num_channels, "dunlin: connections; 0: one for each 90 requests at once")
      ->check(CLI::Range(0, 1024))
      ->group("Server");
  app->add_option("--connect-timeout-ms", o->connect_timeout_ms, "How long the server may take to be there")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->group("Server");
  app->add_option("--server-metrics", o->server_metrics,
                  "URL of the server's /metrics: memory, threads and KV pages before, meanwhile and after")
      ->group("Server");
}

void AddShape(CLI::App* app, load::LoadOptions* o) {
  load::LoadShape& shape = o->shape;
  auto* rate = app->add_option("--rate", shape.rate, "Open loop: requests a second, whatever the answers do")
                   ->check(CLI::Range(0.001, 1e6))
                   ->group("Load");
  app->add_option("--arrivals", o->arrivals, "Of --rate: poisson, constant, or burst")
      ->check(CLI::IsMember({"poisson", "constant", "burst"}))
      ->group("Load");
  app->add_option("--burst", shape.burst, "Requests at once of --arrivals burst")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->group("Load");
  app->add_option("--concurrency", shape.concurrency, "Closed loop: requests under way at any time")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->excludes(rate)
      ->group("Load");
  app->add_option("--num-prompts,--num-requests", shape.num_requests,
                  "Stop sending after so many; 100 without --duration")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group("Load");
  app->add_option("--duration", shape.duration_s, "Stop sending after so many seconds")
      ->check(CLI::Range(0.01, 86400.0))
      ->group("Load");
  app->add_option("--warmup", shape.warmup_s, "Seconds before that: sent, but not counted")
      ->check(CLI::Range(0.0, 3600.0))
      ->group("Load");
  app->add_option("--drain", shape.drain_s, "Seconds that the last requests have to end")
      ->check(CLI::Range(0.0, 3600.0))
      ->group("Load");
  app->add_option("--timeout-ms", o->request.timeout_ms, "Deadline of each request; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{86400000}))
      ->group("Load");
  app->add_option("--cancel-after", o->cancel_after, "Cancel requests after so many tokens (5t) or so long (50ms)")
      ->group("Load");
  app->add_option("--cancel-fraction", shape.cancel_fraction, "Of the requests that --cancel-after is for")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Load");
  app->add_option("--seed", shape.seed, "Of arrivals, prompts and sampling: the same seed sends the same requests")
      ->group("Load");
}

void AddData(CLI::App* app, load::LoadOptions* o) {
  load::DatasetOptions& data = o->data;
  const CLI::Range tokens(1, 1 << 20);
  app->add_option(
         "--dataset", o->dataset,
         "random; shared-prefix; sharegpt: a ShareGPT JSON file; jsonl: lines with \"prompt\" or \"token_ids\", "
         "and \"max_tokens\"")
      ->check(CLI::IsMember({"random", "shared-prefix", "sharegpt", "jsonl"}))
      ->group("Requests");
  app->add_option("--dataset-path", data.path, "Of sharegpt and jsonl")->group("Requests");
  app->add_option("--input-len,--input-tokens", data.input_tokens,
                  "Prompt length of random; of shared-prefix what follows it")
      ->check(tokens)
      ->group("Requests");
  app->add_option("--output-len,--output-tokens", data.output_tokens, "Tokens to generate")
      ->check(tokens)
      ->group("Requests");
  app->add_option("--range-ratio", data.range_ratio, "Lengths vary by this part up and down")
      ->check(CLI::Range(0.0, 0.999))
      ->group("Requests");
  app->add_option("--prefix-tokens", data.prefix_tokens, "Of each shared prefix")->check(tokens)->group("Requests");
  app->add_option("--num-prefixes", data.num_prefixes, "Shared prefixes")->check(tokens)->group("Requests");
  app->add_option("--prompt-form", o->prompt_form,
                  "Random prompts as tokens or as words; auto: tokens where the vocabulary's size is known")
      ->check(CLI::IsMember({"auto", "tokens", "words"}))
      ->group("Requests");
  app->add_option("--vocab-size", data.vocab_size, "Of random token ids, where the server does not say it")
      ->check(tokens)
      ->group("Requests");
  app->add_flag("--no-ignore-eos", o->no_ignore_eos, "Let the model end its answers")->group("Requests");
  app->add_option("--temperature", o->request.temperature, "0 is greedy")
      ->check(CLI::Range(0.0F, 100.0F))
      ->group("Requests");
  app->add_option("--mix", o->mix,
                  "dunlin: profiles and their shares, BACKEND:PRECISION=WEIGHT,..., each reported apart")
      ->group("Requests");
  app->add_flag("--allow-fallback", o->request.allow_fallback, "dunlin: another backend where a named one does not fit")
      ->group("Requests");
  app->add_flag("--omit-text", o->request.omit_text, "dunlin: token ids without text")->group("Requests");
}

void AddSweep(CLI::App* app, load::LoadOptions* o) {
  app->add_flag("--sweep", o->sweep,
                "Find the knee: repeat with more load, from --rate or --concurrency on, until goodput stops rising")
      ->group("Sweep");
  app->add_option("--sweep-factor", o->search.factor, "Growth of the load from step to step")
      ->check(CLI::Range(1.05, 100.0))
      ->group("Sweep");
  app->add_option("--sweep-steps", o->search.max_steps, "At most so many steps of --duration seconds (10) each")
      ->check(CLI::Range(1, 64))
      ->group("Sweep");
  app->add_option("--sweep-refinements", o->search.refinements, "Of these, steps between the last two at the end")
      ->check(CLI::Range(0, 16))
      ->group("Sweep");
  app->add_option("--sweep-goodput-ratio", o->search.min_ratio, "Part of the requests that must be good")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Sweep");
}

void AddResult(CLI::App* app, load::LoadOptions* o) {
  app->add_option("--slo", o->slo, "Limits of a good request: ttft_ms=200,tpot_ms=30,itl_ms=50,e2el_ms=5000, or some")
      ->group("Result");
  app->add_option(
         "--check", o->checks,
         "KEY<=NUMBER or KEY>=NUMBER on a key of the JSON result; exit status 1 when it does not hold; repeatable")
      ->group("Result");
  app->add_option("--max-errors", o->shape.max_errors,
                  "More failed requests (not refused, late or cancelled ones) end the run with exit status 1")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->group("Result");
  app->add_option("--json", o->json_file, "Write the result as JSON; - is stdout, in place of the tables")
      ->group("Result");
  app->add_option("--report", o->report_file, "Write one HTML page with the figures and their charts")->group("Result");
  app->add_option("--charts", o->charts_dir, "Write the charts into this folder, which is made, as SVG and as PNG")
      ->group("Result");
  app->add_option("--label", o->label, "A name that the JSON result carries")->group("Result");
  app->add_flag("--quiet", o->quiet, "No progress line")->group("Result");
}

}  // namespace

void AddLoadOptions(CLI::App* subcommand, load::LoadOptions* options) {
  AddTarget(subcommand, options);
  AddShape(subcommand, options);
  AddData(subcommand, options);
  AddSweep(subcommand, options);
  AddResult(subcommand, options);
}

}  // namespace dunlin::server
