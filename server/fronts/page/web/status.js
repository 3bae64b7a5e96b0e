// SPDX-License-Identifier: Apache-2.0
// What the server does now, from /metrics and /status/profiles, and over the last minutes.

import {getJson, getText} from './api.js';
import {BarChart, TimeChart, bar} from './charts.js';
import {byId, duration, el, number, percent} from './dom.js';
import {histogram, parseMetrics, quantile, since, sum, sumsBy} from './metrics.js';

const kPoints = 91;         // 3 minutes at a poll in 2 s
const kWindowMs = 30000;    // of rates and quantiles
const kQuantiles = [0.5, 0.9, 0.99];
const kTtft = 'vllm:time_to_first_token_seconds';
const kItl = 'vllm:inter_token_latency_seconds';

const ms = (seconds) => seconds * 1000;
const latencies = kQuantiles.map((q, i) => ({name: `p${q * 100}`, line: ['main', 'second', 'third'][i]}));

// What one reading of /metrics has of a model, or of all.
function reading(text, model) {
  const samples = parseMetrics(text, model);
  return {
    time: Date.now(),
    start: sum(samples, 'process_start_time_seconds'),
    running: sum(samples, 'vllm:num_requests_running'),
    waiting: sum(samples, 'vllm:num_requests_waiting'),
    pagesUsed: sum(samples, 'dunlin_kv_pages_used'),
    pagesTotal: sum(samples, 'dunlin_kv_pages_total'),
    prompt: sum(samples, 'vllm:prompt_tokens_total'),
    output: sum(samples, 'vllm:generation_tokens_total'),
    requests: sum(samples, 'dunlin_requests_total'),
    ttft: histogram(samples, kTtft),
    itl: histogram(samples, kItl),
    refusals: sumsBy(samples, 'dunlin_refusals_total', 'reason'),
  };
}

// Rates and quantiles between a reading and an earlier one; null: none.
function between(now, before) {
  const seconds = before === null ? 0 : (now.time - before.time) / 1000;
  const rate = (name) => (seconds > 0 ? Math.max(0, now[name] - before[name]) / seconds : NaN);
  const quantiles = (name) => kQuantiles.map((q) =>
    (before === null ? NaN : ms(quantile(since(now[name], before[name]), q))));
  return {outputRate: rate('output'), promptRate: rate('prompt'), ttft: quantiles('ttft'), itl: quantiles('itl')};
}

export class Status {
  // onRestart: the server is another process than at the reading before.
  constructor(onRestart) {
    this.onRestart = onRestart;
    this.readings = [];
    this.rows = [];  // {now, derived}, for the charts
    this.charts = this.makeCharts();
    this.refusals = new BarChart('Refusals by reason, since start', 'No request has been refused.');
    byId('charts').replaceChildren(...this.charts.map(({chart}) => chart.element), this.refusals.element);
    byId('status-model').addEventListener('change', () => {
      this.readings = [];
      this.rows = [];
    });
  }

  makeCharts() {
    const chart = (title, format, series, values, most) =>
      ({chart: new TimeChart({title, format, series, most}, kPoints), values});
    return [
      chart('Sequences', number, [{name: 'running', line: 'main', area: true}, {name: 'waiting', line: 'third'}],
        ({now}) => [now.running, now.waiting]),
      chart('KV pages in use', number, [{name: 'pages', line: 'main', area: true}], ({now}) => [now.pagesUsed],
        () => this.rows.at(-1)?.now.pagesTotal || 1),
      chart('Tokens per second', number, [{name: 'output', line: 'main', area: true}, {name: 'prompt', line: 'third'}],
        ({derived}) => [derived.outputRate, derived.promptRate]),
      chart('Time to first token', duration, latencies, ({derived}) => derived.ttft),
      chart('Inter-token latency', duration, latencies, ({derived}) => derived.itl),
    ];
  }

  setModels(models) {
    const select = byId('status-model');
    const chosen = select.value;
    select.replaceChildren(el('option', {value: ''}, 'all'), ...models.map(({name}) => el('option', {value: name}, name)));
    if (models.some(({name}) => name === chosen)) select.value = chosen;
    select.parentElement.hidden = models.length < 2;
  }

  note(text) {
    byId('status-note').hidden = text === '';
    byId('status-note').textContent = text;
  }

  // Throws CallError with status 0 when the server cannot be reached.
  async poll(visible, askForKey) {
    try {
      const text = await getText('/metrics');
      this.add(reading(text, byId('status-model').value));
      if (visible) {
        this.draw();
        this.drawProfiles(await getJson('/status/profiles'));
      }
      this.note('');
    } catch (error) {
      if (error.status === 0 || error.status === undefined) throw error;
      if (error.needsKey) askForKey('The server needs a key. One with the permission "metrics" shows its status.');
      this.note(`No metrics: ${error.message}`);
    }
  }

  add(now) {
    const last = this.readings.at(-1);
    if (last !== undefined && last.start !== now.start) {
      this.readings = [];
      this.onRestart();
    }
    const oldest = this.readings.findLast(({time}) => time <= now.time - kWindowMs) ?? this.readings[0] ?? null;
    this.readings = [...this.readings.filter(({time}) => time >= (oldest?.time ?? 0)), now];
    this.rows = [...this.rows, {now, derived: between(now, oldest)}].slice(-kPoints);
  }

  draw() {
    const {now, derived} = this.rows.at(-1);
    const tile = (name, value, more = '') =>
      el('div', {class: 'tile panel'}, el('dt', {}, name), el('dd', {}, value, more && el('small', {}, more)));
    byId('tiles').replaceChildren(
      tile('Running', number(now.running), ` ${number(now.waiting)} waiting`),
      tile('KV pages', percent(now.pagesTotal > 0 ? now.pagesUsed / now.pagesTotal : NaN),
        ` ${number(now.pagesUsed)} of ${number(now.pagesTotal)}`),
      tile('Output', number(derived.outputRate), ' tokens/s'),
      tile('TTFT, p50', duration(derived.ttft[0])),
      tile('ITL, p50', duration(derived.itl[0])),
      tile('Requests', number(now.requests), ` in ${duration(now.time - ms(now.start))}`));
    for (const {chart, values} of this.charts) {
      chart.update(this.rows.map((row) => ({time: row.now.time, values: values(row)})));
    }
    this.refusals.update(now.refusals, number);
  }

  drawProfiles({edges_ms: edges, models}) {
    const model = byId('status-model').value;
    const rows = models.filter(({name}) => model === '' || name === model)
      .flatMap(({name, profiles}) => profiles.map((profile) => ({name, ...profile})));
    const all = rows.reduce((total, {requests}) => total + requests, 0);
    const times = (counts) => kQuantiles.map((q) => el('td', {}, duration(quantile({edges, counts}, q))));
    const speed = (counts) => 1000 / quantile({edges, counts}, 0.5);
    byId('profiles').replaceChildren(rows.length === 0 ? el('p', {class: 'muted empty'}, 'No generation yet.') :
      el('table', {}, el('thead', {},
        el('tr', {}, ['Model', 'Backend', 'Precision', 'Requests', '', 'Output tokens'].map((name) =>
          (name === '' ? el('td', {rowspan: '2'}) : el('th', {scope: 'col', rowspan: '2'}, name))),
        el('th', {scope: 'colgroup', colspan: '3'}, 'TTFT'), el('th', {scope: 'colgroup', colspan: '3'}, 'ITL'),
        el('th', {scope: 'col', rowspan: '2'}, 'Tokens/s of an output')),
        el('tr', {}, [...kQuantiles, ...kQuantiles].map((q) => el('th', {scope: 'col'}, `p${q * 100}`)))),
      el('tbody', {}, rows.map((row) => el('tr', {},
        el('th', {scope: 'row'}, row.name), el('td', {class: 'text'}, row.attention_backend),
        el('td', {class: 'text'}, row.precision),
        el('td', {}, number(row.requests)), el('td', {class: 'share'}, bar(row.requests / all)),
        el('td', {}, number(row.output_tokens)), times(row.ttft), times(row.itl),
        el('td', {}, number(speed(row.per_token))))))));
  }
}
