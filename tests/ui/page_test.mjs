// SPDX-License-Identifier: Apache-2.0
// The page in headless Chromium, against a server of the demo model: every test has a page of its own. What is waited
// for is a state, 60 s at most. Screenshots go to the folder "screenshots" of the working directory.
// node page_test.mjs BINARY ROOT [NAME]; NAME: of one test.

import assert from 'node:assert/strict';
import {mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createHash} from 'node:crypto';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import axe from 'axe-core';
import {chromium} from 'playwright-core';

import {Server} from './serving.mjs';

const kWaitMs = 60000;
const kDesktop = {width: 1180, height: 720};
const kPhone = {width: 390, height: 844};
const kQuestion = 'Tell me about the oystercatcher.';
const kKey = 'key-of-the-ui-test';

const [, , binary, root, only] = process.argv;
const folder = mkdtempSync(join(tmpdir(), 'dunlin-ui-'));
mkdirSync('screenshots', {recursive: true});

const shot = (page, name) => page.screenshot({path: `screenshots/${name}.png`});

// Of WCAG 2.2, levels A and AA, and axe's best practices.
async function assertAccessible(page, what) {
  await page.evaluate(axe.source);
  const {violations} = await page.evaluate(() => window.axe.run());
  const found = violations.map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html).join(' | ')}`);
  assert.deepEqual(found, [], `axe-core on ${what}`);
}

async function open(page, server, view) {
  await page.goto(`${server.url}/#${view}`);
  await page.waitForSelector('#state[data-state=ready]');
}

async function openPlayground(page, server) {
  await open(page, server, 'playground');
  await page.waitForFunction(() => document.querySelector('#profile').options.length > 2);
}

// Sends a prompt and waits until nothing streams any more.
async function ask(page, text) {
  const before = await page.locator('.turn').count();
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
  await page.waitForFunction((n) => document.querySelectorAll('.turn').length > n, before);
  await page.waitForSelector('#send:not([hidden])');
}

async function compare(page, first, second) {
  await page.check('#compare');
  await page.selectOption('#profile', first);
  await page.selectOption('#other-profile', second);
}

const tests = {
  async streamsAChat(page, server) {
    await openPlayground(page, server);
    await ask(page, 'What does the dunlin eat?');
    const answer = page.locator('.answer');
    assert.equal(await answer.locator('.tokens').textContent(), 'The dunlin eats worms and small shellfish.');
    assert.match(await answer.locator('header').textContent(), /^flash bf16 cpu, KV bf16$/);
    assert.match(await answer.locator('.speed').textContent(),
      /^\d+ \+ \d+ tokens · first after \S+ \S+ · [\d,.]+ tokens\/s · complete$/);
    await answer.locator('.token').nth(2).hover();
    await page.waitForSelector('#token-card:not([hidden])');
    assert.equal(await page.locator('#token-card dl > div').count(), 5);
    assert.match(await page.locator('#token-card .chosen dt').textContent(), /^" /);
    await assertAccessible(page, 'a chat');
    await ask(page, 'Where can I see it?');  // a second turn has the first in its history
    assert.equal(await page.locator('.answer').count(), 2);
  },

  async showsToolCallsAndSendsTheirResults(page, server) {
    await openPlayground(page, server);
    await page.click('#example-tool');
    await ask(page, 'What is the weather in Lisbon?');
    assert.equal(await page.locator('.call code').textContent(), 'get_weather');
    assert.deepEqual(JSON.parse(await page.locator('.call pre').textContent()), {city: 'Lisbon'});
    await page.fill('.results textarea', '{"city": "Lisbon", "sky": "sunny", "temperature_c": 21}');
    await assertAccessible(page, 'a tool call');
    await page.click('.results button');
    await page.waitForFunction(() => document.querySelectorAll('.answer').length === 2);
    await page.waitForSelector('#send:not([hidden])');
    assert.match(await page.locator('.answer .tokens').nth(1).textContent(), /Lisbon/);
    await shot(page, 'tools');
  },

  // The stream is one that the server's own tests compare their output with.
  async showsReasoning(page, server) {
    const stream = readFileSync(join(root, 'tests/server/fronts/openai/golden/chat_tools.sse'), 'utf8');
    await page.route('**/v1/chat/completions', (route) =>
      route.fulfill({contentType: 'text/event-stream', body: stream}));
    await openPlayground(page, server);
    await ask(page, 'What is the weather in Oslo?');
    assert.equal(await page.locator('.reasoning .tokens').textContent(), 'Need a tool.');
    assert.equal(await page.locator('.body > .tokens').textContent(), 'Looking.');
    assert.deepEqual(await page.locator('.call code').allTextContents(), ['weather', 'time']);
    assert.deepEqual(JSON.parse(await page.locator('.call pre').first().textContent()), {city: 'Oslo'});
    await assertAccessible(page, 'reasoning and two calls');
    await shot(page, 'reasoning');
  },

  async comparesTwoProfiles(page, server) {
    await openPlayground(page, server);
    await compare(page, 'math bf16', 'flash bf16');
    await page.fill('#seed', '7');
    await page.fill('#temperature', '0');
    await ask(page, 'What does the dunlin eat?');
    assert.match(await page.locator('.verdict').textContent(), /^All \d+ tokens are the same\..*times as fast\.$/);
    await compare(page, 'math fp32', 'flash int4');
    await page.fill('#temperature', '1.5');  // a draw turns on small differences
    await ask(page, 'Tell me a story about Wrenmouth and its birds.');
    const verdict = page.locator('.verdict').nth(1);
    const found = /^First difference at token (\d+): "(.*)" \(.*%\) against "(.*)" \(.*%\)\..*tokens\/s/
      .exec(await verdict.textContent());
    assert.notEqual(found, null, await verdict.textContent());
    const marked = await page.locator('.turn').nth(1).locator('.differs').allTextContents();
    assert.equal(marked.length, 2);
    assert.notEqual(marked[0], marked[1]);
    await page.locator('.differs').nth(1).hover();
    await page.waitForSelector('#token-card:not([hidden])');
    assert.match(await page.locator('#token-card').textContent(), new RegExp(`^token ${found[1]}\\D`));
    await assertAccessible(page, 'a comparison');
    await shot(page, 'compare');
    await page.check('#together');
    await ask(page, 'What does the curlew eat?');
    assert.equal(await page.locator('.turn').nth(2).locator('.answer').count(), 2);
  },

  async showsErrorsOfTheServer(page, server) {
    await openPlayground(page, server);
    await page.fill('#top_p', '9');
    await ask(page, 'Hello');
    assert.match(await page.locator('.answer .error').textContent(), /top_p is 9; limit is/);
    await assertAccessible(page, 'an error');
    await page.fill('#top_p', '');
    await page.click('.again');
    await page.waitForFunction(() => document.querySelector('.answer .speed').textContent.endsWith('complete'));
    assert.equal(await page.locator('.answer').count(), 1);
    await page.fill('#tools', '{');
    assert.equal(await page.locator('#send').isDisabled(), true);
    assert.match(await page.locator('#settings .error').textContent(), /^Tools are not valid/);
  },

  async stopsAnAnswer(page, server) {
    await openPlayground(page, server);
    await page.route('**/v1/chat/completions', () => {});  // an answer that never comes
    await page.fill('#prompt', 'Hello');
    await page.press('#prompt', 'Enter');
    await page.waitForSelector('#stop:not([hidden])');
    await page.keyboard.press('Escape');
    await page.waitForSelector('#send:not([hidden])');
    assert.equal(await page.locator('.answer .speed').textContent(), 'stopped');
  },

  async reconnectsAfterARestart(page, server) {
    await openPlayground(page, server);
    await server.kill();
    await page.waitForSelector('#banner:not([hidden])');
    assert.match(await page.locator('#banner').textContent(), /^No connection to 127\.0\.0\.1:\d+\./);
    await assertAccessible(page, 'a lost connection');
    await ask(page, 'Hello');
    assert.match(await page.locator('.answer .error').textContent(), /cannot be reached/);
    await server.start();
    await page.waitForSelector('#banner', {state: 'hidden'});
    await page.waitForSelector('#state[data-state=ready]');
    await page.click('.again');
    await page.waitForFunction(() => document.querySelector('.answer .speed').textContent.endsWith('complete'));
  },

  async showsTheStatus(page, server) {
    await openPlayground(page, server);
    await ask(page, kQuestion);
    await page.selectOption('#profile', 'efficient fp8');
    await ask(page, kQuestion);
    await page.click('nav a[href="#status"]');
    await page.waitForFunction(() => document.querySelectorAll('#profiles tbody tr').length >= 2);
    const rows = await page.locator('#profiles tbody tr').allTextContents();
    assert.ok(rows.some((row) => row.includes('efficientfp8')), rows.join('\n'));
    assert.deepEqual(await page.locator('#profiles thead tr').first().locator('th[scope=colgroup]').allTextContents(), ['TTFT', 'ITL']);
    const cells = await page.locator('#profiles tbody tr').first().locator('td').allTextContents();
    assert.ok(cells.slice(5, 11).every((time) => /^[\d.,]+ (ms|s)$/.test(time)), `three percentiles of each: ${cells.join(' | ')}`);
    await page.waitForFunction(() => /^Tokens per second: output [\d,.]+, between/.test(
      [...document.querySelectorAll('.chart svg')].map((svg) => svg.getAttribute('aria-label'))
        .find((label) => label?.startsWith('Tokens per second')) ?? ''));
    assert.equal(await page.locator('.chart').count(), 6);
    await assertAccessible(page, 'the status');
  },

  async showsModelsAndTheirProfiles(page, server) {
    await open(page, server, 'models');
    await page.waitForSelector('.model');
    assert.equal(await page.locator('.model h2').textContent(), 'demo');
    assert.equal(await page.locator('.grid .yes').count(), 18);
    assert.equal(await page.locator('.grid .chosen').textContent(), 'default');
    await assertAccessible(page, 'the models');
    await shot(page, 'models');
  },

  // With answers in the place of the repository's, which serves whatever the server of this test may do.
  async loadsAndUnloadsWhereTheServerCan(page, server) {
    await open(page, server, 'models');
    await page.waitForSelector('.model');
    assert.equal(await page.locator('.model button').count(), 0, 'the server of this test lets nobody load models');
    const called = [];
    await page.route('**/v2/repository/models/**', (route) => {
      const path = new URL(route.request().url()).pathname.slice('/v2/repository/models/'.length);
      if (path.startsWith('demo/') || path.startsWith('other/')) called.push(path);
      const status = path === 'demo/unload' ? 200 : 404;
      return route.fulfill({status, contentType: 'application/json', body: status === 200 ? '' : '{"error": "no such model"}'});
    });
    await page.route('**/v2/repository/index', (route) => route.fulfill({contentType: 'application/json',
      body: '[{"name": "demo", "state": "READY"}, {"name": "other", "state": "UNAVAILABLE", "reason": "no file"}]'}));
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll('.model button').length === 3);
    await assertAccessible(page, 'models that can be loaded');
    await shot(page, 'load');
    await page.getByRole('button', {name: 'Unload demo'}).click();
    await page.waitForFunction(() => document.querySelector('#announcer').textContent === 'demo: done');
    await page.getByRole('button', {name: 'Load other'}).click();
    await page.waitForFunction(() => document.querySelector('#models-note').textContent === 'other: no such model');
    assert.deepEqual(called, ['demo/unload', 'other/load']);
  },

  async worksByKeyboardAlone(page, server) {
    await openPlayground(page, server);
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
    const tabTo = async (name) => {
      for (let i = 0; i < 60; ++i) {
        if ((await focused()).split(' ').includes(name)) return;
        await page.keyboard.press('Tab');
      }
      assert.fail(`${name} is not reached by Tab`);
    };
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'skip');
    await tabTo('compare');
    await page.keyboard.press('Space');
    await tabTo('prompt');
    await page.keyboard.type('What does the dunlin eat?');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.verdict:not(:empty)');
    await page.waitForSelector('#send:not([hidden])');
    while (!(await focused()).startsWith('tokens')) await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.locator('.token.cursor').count(), 1);
    await page.waitForSelector('#token-card:not([hidden])');
    assert.match(await page.locator('#announcer').textContent(), /^" dunlin" [\d.]+ %$/);
    await page.keyboard.press('Escape');
    await page.waitForSelector('#token-card', {state: 'hidden'});
  },

  async fitsAPhoneInTheDark(page, server) {
    await page.setViewportSize(kPhone);
    await page.emulateMedia({colorScheme: 'dark'});
    for (const view of ['status', 'models', 'playground']) {
      await open(page, server, view);
      if (view === 'playground') {
        await page.waitForFunction(() => document.querySelector('#profile').options.length > 2);
        await page.click('.settings summary');
        await compare(page, 'math fp32', 'flash fp8');
        await shot(page, 'phone_settings');
        await page.click('.settings summary');
        await ask(page, kQuestion);
      }
      if (view === 'status') await page.waitForSelector('.tile');
      if (view === 'models') await page.waitForSelector('.model');
      const widths = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      assert.ok(widths[0] <= widths[1], `${view} is ${widths[0]} wide`);
      await assertAccessible(page, `${view} on a phone in the dark`);
      await shot(page, `phone_${view}`);
    }
  },

  async loadsNothingFromElsewhere(page, server) {
    const others = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(server.url)) others.push(request.url());
    });
    await openPlayground(page, server);
    for (const view of ['models', 'status']) {
      await page.click(`nav a[href="#${view}"]`);
      await page.waitForSelector(`#view-${view}:not([hidden])`);
    }
    await page.waitForSelector('.tile');
    assert.deepEqual(others, []);
  },
};

// Of a server with keys, one precision and no attention backend MATH.
const restrictedTests = {
  async asksForAKeyAndTellsReasonsAgainstProfiles(page, server) {
    await page.goto(`${server.url}/#models`);
    await page.waitForSelector('#key-dialog[open]');
    await assertAccessible(page, 'the question for a key');
    await shot(page, 'key');
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => /^No models: .*valid key/.test(document.querySelector('#models-note').textContent));
    await page.click('#key-button');
    await page.fill('#key', kKey);
    await page.press('#key', 'Enter');
    await page.waitForSelector('.model');
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await page.click('.reasons summary');
    const reasons = await page.locator('.reasons li').allTextContents();
    assert.ok(reasons.some((text) => /^precision fp8 is not resident .*flash\/fp8, efficient\/fp8, math\/fp8$/.test(text)), reasons.join('\n'));
    assert.ok(reasons.some((text) => /^math is disabled by the config/.test(text)), reasons.join('\n'));
    await assertAccessible(page, 'reasons against profiles');
    await page.reload();
    await page.waitForSelector('.model');
    await page.click('nav a[href="#playground"]');
    await page.waitForFunction(() => document.querySelector('#profile').options.length > 2);
    await ask(page, 'What does the dunlin eat?');
    assert.match(await page.locator('.answer .speed').textContent(), /complete$/);
    await page.click('nav a[href="#status"]');  // the key has no permission "metrics"
    await page.waitForFunction(() => /needs the permission "metrics"/.test(document.querySelector('#status-note').textContent));
  },
};

async function runOne(browser, server, name, test) {
  const context = await browser.newContext({viewport: kDesktop, colorScheme: 'light'});
  context.setDefaultTimeout(kWaitMs);
  const page = await context.newPage();
  const problems = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy/.test(message.text())) problems.push(message.text());
  });
  try {
    await test(page, server);
    assert.deepEqual(problems, [], 'errors of scripts, and what the policy has blocked');
    console.log(`ok      ${name}`);
    return true;
  } catch (error) {
    console.log(`FAILED  ${name}: ${error.message}`);
    await shot(page, `failed_${name}`).catch(() => {});
    return false;
  } finally {
    await context.close();
  }
}

async function runAll(browser, settings, all) {
  const server = new Server(binary, root, settings);
  let passed = true;
  await server.start();
  try {
    for (const [name, test] of Object.entries(all)) {
      if (only !== undefined && only !== name) continue;
      passed = (await runOne(browser, server, name, test)) && passed;
    }
  } finally {
    await server.kill();
  }
  return passed;
}

function writeKeys() {
  const file = join(folder, 'keys.json');
  const digest = createHash('sha256').update(kKey).digest('hex');
  const key = {name: 'ui', hashes: [`sha256:${digest}`], permissions: ['infer'], models: ['*']};
  writeFileSync(file, JSON.stringify({keys: [key]}), {mode: 0o600});
  return file;
}

const browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage']});
try {
  const restricted = [`access.keys_file=${writeKeys()}`, 'models.0.precisions=["bf16"]', 'attention.enable_math=false'];
  const passed = [await runAll(browser, [], tests), await runAll(browser, restricted, restrictedTests)];
  process.exitCode = passed.every(Boolean) ? 0 : 1;
} finally {
  await browser.close();
  rmSync(folder, {recursive: true});
}
