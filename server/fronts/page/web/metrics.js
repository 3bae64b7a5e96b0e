// SPDX-License-Identifier: Apache-2.0
// The text format of /metrics, and quantiles of its histograms.

const kLine = /^([^\s{]+)(?:\{(.*)\})?\s+(\S+)$/;
const kLabel = /([\w]+)="((?:[^"\\]|\\.)*)"/g;

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of (text ?? '').matchAll(kLabel)) {
    labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
  }
  return labels;
}

// Samples by name: [{labels, value}]. model: only series of this model, and those of no model; '': all.
export function parseMetrics(text, model = '') {
  const samples = new Map();
  for (const line of text.split('\n')) {
    const match = line.startsWith('#') ? null : kLine.exec(line);
    if (match === null) continue;
    const labels = labelsOf(match[2]);
    if (model !== '' && labels.model_name !== undefined && labels.model_name !== model) continue;
    if (!samples.has(match[1])) samples.set(match[1], []);
    samples.get(match[1]).push({labels, value: Number(match[3].replace('Inf', 'Infinity'))});
  }
  return samples;
}

export function sum(samples, name) {
  return (samples.get(name) ?? []).reduce((total, {value}) => total + value, 0);
}

// [[label's value, sum]] of a counter, those of 0 left out, the largest first.
export function sumsBy(samples, name, label) {
  const sums = new Map();
  for (const {labels, value} of samples.get(name) ?? []) {
    sums.set(labels[label], (sums.get(labels[label]) ?? 0) + value);
  }
  return [...sums].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
}

// {edges, counts}: upper edges of the buckets, ascending; the counts of the buckets and of what is beyond them.
export function histogram(samples, name) {
  const cumulative = new Map();
  for (const {labels, value} of samples.get(`${name}_bucket`) ?? []) {
    const edge = Number(labels.le.replace('Inf', 'Infinity'));
    cumulative.set(edge, (cumulative.get(edge) ?? 0) + value);
  }
  const ordered = [...cumulative].sort((a, b) => a[0] - b[0]);
  return {
    edges: ordered.map(([edge]) => edge).filter(Number.isFinite),
    counts: ordered.map(([, count], i) => count - (i > 0 ? ordered[i - 1][1] : 0)),
  };
}

// What came between two readings; all of `now` if the counts began anew.
export function since(now, before) {
  const differences = now.counts.map((count, i) => count - (before?.counts[i] ?? 0));
  const restarted = differences.some((count) => count < 0);
  return {edges: now.edges, counts: restarted ? now.counts : differences};
}

// Interpolated within its bucket, as Prometheus does; beyond the last edge that edge; NaN without a count.
export function quantile({edges, counts}, q) {
  const total = counts.reduce((a, b) => a + b, 0);
  if (total === 0) return NaN;
  let below = 0;
  for (let i = 0; i < edges.length; ++i) {
    if (below + counts[i] >= q * total && counts[i] > 0) {
      const low = i > 0 ? edges[i - 1] : 0;
      return low + (edges[i] - low) * ((q * total - below) / counts[i]);
    }
    below += counts[i];
  }
  return edges.at(-1) ?? NaN;
}
