// SPDX-License-Identifier: Apache-2.0
// Text that knows its tokens: each shows its probability, and what else was likely, under the pointer or, with the
// arrow keys, under a cursor.

import {announce, byId, el, percent} from './dom.js';
import {bar} from './charts.js';

const kUnsure = [0.9, 0.5, 0.2];  // below each of these a token is underlined more

export const probability = (token) => Math.exp(token.logprob);

// As a reader can tell it from others: quoted, with its line breaks.
export const quoted = (text) => JSON.stringify(text);

export function sameToken(a, b) {
  return a.token === b.token && JSON.stringify(a.bytes) === JSON.stringify(b.bytes);
}

// [[text, first token, number of tokens]] of a text that the tokens contain. Tokens that share a character are one
// piece; tokens outside the text (marks of calls, the end of the sequence) are in none.
export function piecesOf(text, tokens) {
  const decoder = new TextDecoder();
  const whole = [];  // [start, end, first, count] within the text of all tokens
  let all = '';
  let pending = 0;
  tokens.forEach((token, i) => {
    const more = token.bytes ? decoder.decode(new Uint8Array(token.bytes), {stream: true}) : token.token;
    pending += 1;
    if (more === '') return;
    whole.push([all.length, all.length + more.length, i + 1 - pending, pending]);
    all += more;
    pending = 0;
  });
  const start = all.lastIndexOf(text);
  if (start < 0) return [[text, 0, tokens.length]];
  const end = start + text.length;
  return whole.filter(([from, to]) => from < end && to > start).map(([from, to, first, count]) =>
    [all.slice(Math.max(from, start), Math.min(to, end)), first, count]);
}

// Fills the card with one token and its alternatives, and places it at its span.
function showCard(span, index, token) {
  const card = byId('token-card');
  const likely = token.top_logprobs ?? [];
  const rows = likely.some((other) => sameToken(other, token)) ? likely : [token, ...likely];
  card.replaceChildren(
    el('p', {class: 'muted'}, `token ${index + 1}`, el('span', {class: 'right'}, token.logprob.toFixed(4))),
    el('dl', {}, rows.map((other) => el('div', {class: sameToken(other, token) ? 'chosen' : null},
      el('dt', {}, quoted(other.token)), el('dd', {}, percent(probability(other))),
      el('dd', {class: 'wide'}, bar(probability(other)))))));
  card.hidden = false;
  const box = span.getClientRects()[0] ?? span.getBoundingClientRect();
  const below = box.bottom + card.offsetHeight + 8 < window.innerHeight;
  card.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - card.offsetWidth - 8))}px`;
  card.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - card.offsetHeight - 6)}px`;
}

export function hideCard() {
  byId('token-card').hidden = true;
}

export class TokenText {
  // label: for screen readers. tokens: of the whole answer, which grow.
  constructor(label, tokens) {
    this.tokens = tokens;
    this.spans = [];  // {span, first, count}: tokens by their index in the answer
    this.at = -1;     // the span under the cursor
    this.element = el('div', {
      class: 'tokens', role: 'group', 'aria-label': label, onkeydown: (event) => this.key(event),
      onfocusout: () => this.leave(), onpointerover: (event) => this.point(event), onpointerleave: hideCard,
    });
  }

  get text() { return this.spans.map(({span}) => span.textContent).join(''); }

  // offset: of tokens[0] in the answer. No tokens: the text alone.
  append(text, tokens, offset) {
    const pieces = tokens.length === 0 ? [[text, 0, 0]] : piecesOf(text, tokens);
    for (const [piece, first, count] of pieces) this.add(piece, offset + first, count);
    if (tokens.length > 0) this.element.setAttribute('tabindex', '0');
  }

  add(text, first, count) {
    const own = this.tokens.slice(first, first + count);
    const least = Math.min(1, ...own.map(probability));
    const level = kUnsure.filter((limit) => least < limit).length;
    const span = el('span', {class: count > 0 ? `token unsure-${level}` : null}, text);
    span.dataset.index = String(this.spans.length);
    this.spans.push({span, first, count});
    this.element.append(span);
    return span;
  }

  // Marks the token of this index; one without a text is shown for that.
  mark(index) {
    const found = this.spans.find(({first, count}) => index >= first && index < first + count);
    const span = found?.span ?? this.add(index < this.tokens.length ? this.tokens[index].token : '(end)', index,
      index < this.tokens.length ? 1 : 0);
    if (found === undefined) span.classList.add('special');
    span.classList.add('differs');
  }

  show(at) {
    const {span, first, count} = this.spans[at];
    if (count > 0) showCard(span, first, this.tokens[first]);
  }

  point(event) {
    const index = event.target.dataset?.index;
    if (index === undefined) hideCard();
    else this.show(Number(index));
  }

  key(event) {
    const to = {ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: this.spans.length - 1}[event.key];
    if (event.key === 'Escape') this.leave();
    if (to === undefined || event.target !== this.element) return;
    event.preventDefault();
    this.spans[this.at]?.span.classList.remove('cursor');
    this.at = Math.max(0, Math.min(this.spans.length - 1, to));
    this.spans[this.at].span.classList.add('cursor');
    this.show(this.at);
    const token = this.tokens[this.spans[this.at].first];
    if (token !== undefined) announce(`${quoted(token.token)} ${percent(probability(token))}`);
  }

  leave() {
    this.spans[this.at]?.span.classList.remove('cursor');
    this.at = -1;
    hideCard();
  }
}
