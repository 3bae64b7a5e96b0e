// SPDX-License-Identifier: Apache-2.0
// Elements and numbers as text. Text is always set as text, never parsed as HTML.

const kSvg = 'http://www.w3.org/2000/svg';

export const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// attributes: {class, onclick, ...}; of null, undefined and false there is none. children: nodes, texts, lists of them.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(kSvg, tag), attributes, children);
}

// Says a text to screen readers.
export function announce(text) {
  byId('announcer').textContent = text;
}

const kWhole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const kShort = new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1});

export const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

// 12,345; 3.2M from 100,000 on; three digits below 100; a dash for what is no number.
export function number(value) {
  if (!isNumber(value)) return '–';
  if (Math.abs(value) >= 1e5) return kShort.format(value);
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return kWhole.format(value);
  return String(Number(value.toPrecision(3)));
}

export function percent(fraction) {
  if (!isNumber(fraction)) return '–';
  const value = fraction * 100;
  if (value > 0 && value < 0.01) return '<0.01 %';
  return `${value >= 99.995 ? 100 : Number(value.toFixed(value < 10 ? 2 : 1))} %`;
}

// A time in milliseconds: 0.42 ms, 12 ms, 1.2 s, 3 min.
export function duration(ms) {
  if (!isNumber(ms)) return '–';
  if (ms < 1000) return `${number(ms)} ms`;
  if (ms < 120e3) return `${number(ms / 1000)} s`;
  if (ms < 7200e3) return `${Math.round(ms / 60e3)} min`;
  return ms < 172800e3 ? `${Math.round(ms / 3600e3)} h` : `${Math.round(ms / 86400e3)} d`;
}
