// SPDX-License-Identifier: Apache-2.0
// The page: views, the connection to the server, the key.

import {hasKey, respond, setKey} from './api.js';
import {announce, byId} from './dom.js';
import {Models} from './models.js';
import {Playground} from './playground.js';
import {Status} from './status.js';

const kPollMs = 2000;
const kViews = ['status', 'models', 'playground'];

const status = new Status(onRestart);
const models = new Models(askForKey);
const playground = new Playground(askForKey);

let connected = null;  // null: not known yet
let loaded = false;    // the list of models is that of the server that runs
let askedForKey = false;

function view() {
  const name = location.hash.slice(1);
  return kViews.includes(name) ? name : kViews[0];
}

function showView() {
  const shown = view();
  for (const name of kViews) byId(`view-${name}`).hidden = name !== shown;
  for (const link of document.querySelectorAll('nav a')) {
    const own = link.hash === `#${shown}`;
    if (own) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
    if (own) document.title = `${link.textContent} - Dunlin`;
  }
  if (shown === 'models') loaded = false;  // others may have loaded and unloaded some
}

function setState(name, text) {
  byId('state').dataset.state = name;
  byId('state').textContent = text;
}

function setConnected(now) {
  if (connected === now) return;
  byId('banner').hidden = now;
  byId('banner').textContent = now ? '' : `No connection to ${location.host}. Trying again every ${kPollMs / 1000} s.`;
  if (now && connected === false) announce('Connected again');
  if (!now) {
    setState('down', 'no connection');
    loaded = false;
  }
  connected = now;
}

function onRestart() {
  loaded = false;
}

// Of a call that failed for want of a valid key: asks once, then leaves the button.
function askForKey(reason) {
  byId('key-button').hidden = false;
  byId('key-reason').textContent = reason;
  if (askedForKey || byId('key-dialog').open) return;
  askedForKey = true;
  byId('key-dialog').showModal();
}

async function loadModels() {
  const list = await models.load();
  loaded = list !== null;
  if (list === null) return;
  byId('version').textContent = `${list.version} ${list.cpu_variant}`;
  status.setModels(list.models);
  playground.setModels(list.models);
}

async function poll() {
  try {
    const readiness = await respond('/readyz');
    setConnected(true);
    const ready = readiness.ok;
    setState(ready ? 'ready' : 'waiting', ready ? 'ready' : (await readiness.text()).trim());
    if (!loaded) await loadModels();
    await status.poll(view() === 'status', askForKey);
  } catch (error) {
    if (error.status !== 0) throw error;
    setConnected(false);
  }
}

async function pollForEver() {
  for (;;) {
    if (!document.hidden) await poll().catch((error) => setState('waiting', error.message));
    await new Promise((wake) => { setTimeout(wake, kPollMs); });
  }
}

function bindKeyDialog() {
  const dialog = byId('key-dialog');
  byId('key-button').hidden = !hasKey();
  byId('key-button').addEventListener('click', () => dialog.showModal());
  byId('key-cancel').addEventListener('click', () => dialog.close());
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    setKey(byId('key').value.trim());
    byId('key').value = '';
    byId('key-button').hidden = false;
    askedForKey = false;
    loaded = false;
    dialog.close();
    poll();
  });
}

window.addEventListener('hashchange', () => {
  showView();
  byId('main').focus();
  if (!loaded && connected) loadModels().catch(() => {});
});
bindKeyDialog();
showView();
pollForEver();
