// SPDX-License-Identifier: Apache-2.0
// Calls of this server. Each carries the key that the user has typed, which is kept in this tab's session alone.

const kKeyItem = 'dunlin-key';
const kCallMs = 10000;

let key = sessionStorage.getItem(kKeyItem) ?? '';

export const hasKey = () => key !== '';

export function setKey(text) {
  key = text;
  if (key === '') sessionStorage.removeItem(kKeyItem);
  else sessionStorage.setItem(kKeyItem, key);
}

// What the server answered instead of a result. status 0: nothing, it cannot be reached.
export class CallError extends Error {
  constructor(status, message, details = {}) {
    super(message);
    this.status = status;
    this.details = details;  // OpenAI's error object, as far as the server sent one
  }
  get needsKey() { return this.status === 401; }
}

async function errorOf(response) {
  const text = await response.text().catch(() => '');
  let details = {};
  try {
    const {error} = JSON.parse(text);
    details = typeof error === 'string' ? {message: error} : error ?? {};
  } catch {
    details = {message: text.trim()};
  }
  return new CallError(response.status, details.message || `HTTP ${response.status}`, details);
}

async function send(path, body, signal) {
  const headers = key === '' ? {} : {Authorization: `Bearer ${key}`};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  try {
    return await fetch(path, {
      method: body === undefined ? 'GET' : 'POST', headers, signal, cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== 'TimeoutError') throw error;
    throw new CallError(0, 'The server cannot be reached.');
  }
}

// The response, whatever its status. GET without a body, else POST of it as JSON.
export const respond = (path, body) => send(path, body, AbortSignal.timeout(kCallMs));

async function checked(path, body, signal) {
  const response = await send(path, body, signal);
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function getText(path) {
  return (await checked(path, undefined, AbortSignal.timeout(kCallMs))).text();
}

export async function getJson(path) {
  return JSON.parse(await getText(path));
}

export async function post(path, body) {
  const text = await (await checked(path, body)).text();
  return text === '' ? null : JSON.parse(text);
}

// The response of a call whose body comes piece by piece; signal ends it.
export const open = (path, body, signal) => checked(path, body, signal);
