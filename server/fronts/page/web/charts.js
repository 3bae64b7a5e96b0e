// SPDX-License-Identifier: Apache-2.0
// Charts over time, drawn in SVG. Each has its latest values as text next to its line, and a description for screen
// readers; the pointer, or the arrow keys, show the values of an earlier time.

import {el, isNumber, svg} from './dom.js';

const kWidth = 300;
const kHeight = 80;

// The next of 1, 2, 5, 10, ... at or above a value.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

// Lines of the points that follow each other without a gap, as a path.
function pathOf(points, close) {
  const runs = [[]];
  for (const point of points) {
    if (point === null) runs.push([]);
    else runs.at(-1).push(point);
  }
  return runs.filter((run) => run.length > 0).map((run) => {
    const line = run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
    if (run.length === 1) line.push(`${(run[0][0] + 0.5).toFixed(1)} ${run[0][1].toFixed(1)}`);
    const ends = close ? `L${run.at(-1)[0].toFixed(1)} ${kHeight} L${run[0][0].toFixed(1)} ${kHeight}Z` : '';
    return `M${line.join(' L')}${ends}`;
  }).join('');
}

// options: {title, format, series: [{name, line: 'main' | 'second' | 'third', area}], most}. most: of the axis, a
// function of the history; else what the values need. length: how many points fit.
export class TimeChart {
  constructor(options, length) {
    this.options = options;
    this.length = length;
    this.rows = [];
    this.shown = null;  // index of the point under the pointer
    this.lines = options.series.map(({line, area}) => ({
      area: area ? svg('path', {class: 'area'}) : null, line: svg('path', {class: `line ${line}`}),
    }));
    this.cursor = svg('path', {class: 'cursor'});
    this.image = svg('svg', {
      viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: 'none', role: 'img', tabindex: '0',
      onpointermove: (event) => this.point(event), onpointerleave: () => this.show(null),
      onkeydown: (event) => this.key(event), onblur: () => this.show(null),
    }, svg('path', {class: 'grid', d: `M0 ${kHeight / 2}H${kWidth}`}), this.lines.map(({area}) => area),
    this.lines.map(({line}) => line), this.cursor);
    this.values = options.series.map(() => el('dd'));
    this.top = el('span', {class: 'axis muted'});
    this.when = el('span', {class: 'muted when'}, 'now');
    this.element = el('figure', {class: 'chart panel'},
      el('figcaption', {}, options.title, this.when),
      el('div', {class: 'plot'}, this.image, this.top),
      el('dl', {class: 'legend'}, options.series.map(({name, line}, i) =>
        el('div', {}, el('dt', {class: `swatch ${line}`}, name), this.values[i]))));
  }

  // rows: [{time, values}], the oldest first; values: one of each series, NaN for none.
  update(rows) {
    this.rows = rows;
    const most = this.options.most?.(rows) ??
      ceiling(Math.max(0, ...rows.flatMap(({values}) => values.filter(isNumber))));
    const step = kWidth / (this.length - 1);
    this.x = (i) => kWidth - (rows.length - 1 - i) * step;
    this.options.series.forEach((series, s) => {
      const points = rows.map(({values}, i) =>
        (isNumber(values[s]) ? [this.x(i), kHeight - 1 - (values[s] / most) * (kHeight - 2)] : null));
      this.lines[s].line.setAttribute('d', pathOf(points, false));
      this.lines[s].area?.setAttribute('d', pathOf(points, true));
    });
    this.top.textContent = this.options.format(most);
    this.show(this.shown);
    this.image.setAttribute('aria-label', `${this.options.title}: ` + this.options.series.map(({name}, s) => {
      const known = rows.map(({values}) => values[s]).filter(isNumber);
      if (known.length === 0) return `${name} without values`;
      return `${name} ${this.options.format(known.at(-1))}, between ${this.options.format(Math.min(...known))} and ` +
        this.options.format(Math.max(...known));
    }).join('; '));
  }

  // Shows the values of the point, or the latest ones.
  show(index) {
    this.shown = index !== null && index >= 0 && index < this.rows.length ? index : null;
    const row = this.rows[this.shown ?? this.rows.length - 1];
    this.values.forEach((value, s) => {
      value.textContent = row === undefined ? '–' : this.options.format(row.values[s]);
    });
    const age = row === undefined ? 0 : Math.round((this.rows.at(-1).time - row.time) / 1000);
    this.when.textContent = this.shown === null ? 'now' : `${age} s ago`;
    this.cursor.setAttribute('d', this.shown === null ? '' : `M${this.x(this.shown).toFixed(1)} 0V${kHeight}`);
  }

  point(event) {
    const box = this.image.getBoundingClientRect();
    const fromRight = Math.round(((box.right - event.clientX) / box.width) * (this.length - 1));
    this.show(this.rows.length - 1 - fromRight);
  }

  key(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.show(Math.max(0, Math.min(this.rows.length - 1, (this.shown ?? this.rows.length - 1) + by)));
  }
}

// Bars with their names and values: [[name, value]].
export class BarChart {
  constructor(title, empty) {
    this.empty = empty;
    this.body = el('div', {class: 'bars'});
    this.element = el('figure', {class: 'chart panel'}, el('figcaption', {}, title), this.body);
  }

  update(rows, format) {
    const most = Math.max(...rows.map(([, value]) => value), 0);
    if (rows.length === 0) return this.body.replaceChildren(el('p', {class: 'muted'}, this.empty));
    this.body.replaceChildren(el('dl', {}, rows.map(([name, value]) => el('div', {},
      el('dt', {}, name), el('dd', {}, format(value)), el('dd', {class: 'wide'}, bar(value / most))))));
  }
}

// A horizontal bar that is filled to a fraction; its value stands next to it as text.
export function bar(fraction) {
  const width = Math.max(0, Math.min(1, fraction || 0)) * 100;
  return el('span', {class: 'bar'}, svg('svg', {viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    svg('rect', {class: 'bar-back', width: '100', height: '4'}),
    svg('rect', {class: 'bar-fill', width: width.toFixed(1), height: '4'})));
}
