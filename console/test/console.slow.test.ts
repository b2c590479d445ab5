import { setTimeout } from 'node:timers/promises';
import {
  createDataDirectory,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import type { Locator } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ConsolePage, hasChromium, openConsole, signIn } from './browser.ts';
import { type Demo, fillDemo } from './demo.ts';
import { testAccessibility } from './accessibility.ts';
import { testHiddenData } from './hidden-data.ts';
import { testLog } from './log-charts.ts';
import { testManaging } from './managing.ts';

interface Listed {
  readonly pagination: { readonly total_items: number };
  readonly data: readonly { readonly id: string }[];
}

describe.skipIf(!hasChromium)('the console in a browser (skipped where Chromium is not installed)', () => {
  let dataDir: string;
  let vault: StandaloneProcess;
  let demo: Demo;
  let shown: ConsolePage;

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    const env = { VAULT_PLAN: 'enterprise', VAULT_EGRESS_ALLOW: '127.0.0.0/8' };
    vault = await startStandaloneProcess({ dataDir, env });
    demo = await fillDemo(vault, { tokens: 10_000, days: 30 });
    shown = await openConsole(vault.url, { colorScheme: 'light', width: 1280 });
    await signIn(shown, demo);
  }, 240_000);

  /** When the browser is signed out, it signs in again, so that only this attempt of a test fails. */
  async function openOverview(): Promise<void> {
    const { page } = shown;
    await page.goto(`${vault.url}/console/`);
    const overview = page.getByRole('heading', { level: 1, name: 'Overview' });
    const keyOfSignIn = page.getByLabel('API key');
    await overview
      .or(keyOfSignIn)
      .waitFor()
      .catch(async (cause: unknown) => {
        throw new Error(`the page shows: ${await page.locator('body').innerText()}`, { cause });
      });
    if (!(await keyOfSignIn.isVisible())) return;
    await signIn(shown, demo);
    throw new Error('the page asked for a key, although the browser had signed in');
  }

  // A test that failed may have left a dialog open, which hides every button below it.
  beforeEach(async () => {
    await shown.page.setViewportSize({ width: 1280, height: 900 });
    await openOverview();
  });

  afterAll(async () => {
    await shown?.close();
    await vault?.stop();
    await removeDataDirectory(dataDir);
  });

  const totalOf = async (query: Record<string, string>): Promise<number> =>
    (await vault.client().expect<Listed>(200, 'GET', `/logs?size=0&${new URLSearchParams(query).toString()}`))
      .body.pagination.total_items;

  it('keeps no key in the page or in storage, and its cookie cannot be read by scripts', async () => {
    const { page } = shown;
    const kept = await page.evaluate<string>(
      'JSON.stringify([document.cookie, Object.entries(localStorage), Object.entries(sessionStorage), location.href])',
    );
    expect(kept).toBe(JSON.stringify(['', [], [], `${vault.url}/console/`]));
    for (const key of [demo.managementKey, demo.privateKey]) expect(await page.content()).not.toContain(key);
    expect(shown.urls.filter((url) => url.includes('key_'))).toEqual([]);
    const cookies = await shown.context.cookies();
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }]);
  });

  it('loads at most 300 kB for its first page, and says when it could be used', async () => {
    const page = await shown.context.newPage();
    await page.goto(`${vault.url}/console/`);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    const ms = Math.round(await page.evaluate<number>('performance.now()'));
    await page.waitForLoadState('networkidle');
    const bytes = await page.evaluate<number>(`
      [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter(({ name }) => name.includes('/console/') && !/console\\/(session|overview)/.test(name))
        .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`);
    console.info(`console: can be used after ${ms} ms; ${Math.round(bytes / 1000)} kB gzipped`);
    expect(bytes).toBeGreaterThan(50_000);
    expect(bytes).toBeLessThanOrEqual(300_000);
    await page.close();
  });

  const signed = () => ({ vault, demo, shown });
  testLog(signed);

  it('rebuilds a read model to its end', async () => {
    const { page } = shown;
    await shown.visit('#/operations');
    const row = page.getByRole('row').filter({ hasText: /^log \d/ });
    const before = await totalOf({});
    expect(before).toBeGreaterThan(5_000);
    await page.getByRole('button', { name: 'rebuild log', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Rebuild' }).click();
    await row.getByRole('progressbar').waitFor();
    await row.getByText('none').waitFor({ timeout: 60_000 });
    expect(await row.innerText()).toContain('live');
    expect(await totalOf({})).toBeGreaterThanOrEqual(before);
  });

  it('writes a reactor, shows the line that does not compile, and runs the corrected one', async () => {
    const { page } = shown;
    await shown.visit('#/reactors/new');
    const editor = page.getByRole('textbox', { name: 'Code of the reactor' });
    const write = async (code: string) => {
      await editor.fill(code);
      await page.getByRole('button', { name: /^(Create|Save)$/ }).click();
    };
    await page.getByLabel('Name', { exact: true }).fill('adder');
    await page.getByLabel('Application', { exact: true }).selectOption({ label: 'backend' });
    await write('module.exports = async function (req) {\n  const sum = ;\n};');
    await page.getByRole('alert').filter({ hasText: 'does not compile: line 2' }).waitFor();
    expect(await lineOf(page.locator('.cm-gutter-lint .cm-lint-marker-error'))).toBe(2);
    await write(
      'module.exports = async function (req) {\n  return { raw: { sum: req.args.a + req.args.b } };\n};',
    );
    await page.getByRole('heading', { level: 1, name: 'adder' }).waitFor();
    await page.getByLabel('Arguments (a JSON object)').fill('{"a": 20, "b": 22}');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('"sum": 42').waitFor();
    const runs = page.getByRole('table', { name: 'Runs', exact: true });
    await runs.getByText('succeeded').waitFor();
  });

  it('replaces a key of a client that continues its requests, without a failed request', async () => {
    const { page } = shown;
    const id = demo.applicationIds['backend'];
    const client = vault.client(demo.privateKey);
    const statuses: number[] = [];
    const stopped = new AbortController();
    const running = (async () => {
      while (!stopped.signal.aborted) {
        statuses.push((await client.request('GET', `/tokens/${demo.tokenIds[0]}`)).status);
        await setTimeout(5);
      }
    })();
    try {
      await shown.visit(`#/applications/${id}`);
      await page.getByRole('button', { name: 'Regenerate' }).click();
      await page.getByLabel('The key before stops').selectOption({ label: 'After 1 hour' });
      await page.getByRole('button', { name: 'Make the new key' }).click();
      const key = await page.locator('.secret').innerText();
      expect((await vault.client(key).request('GET', `/tokens/${demo.tokenIds[0]}`)).status).toBe(200);
      await page.keyboard.press('Escape');
      expect(await page.locator('.secret').count()).toBe(1);
      await page.getByRole('button', { name: 'I have the key' }).click();
      expect(await page.content()).not.toContain(key);
    } finally {
      stopped.abort();
      await running;
    }
    expect(statuses.length).toBeGreaterThan(0);
    expect([...new Set(statuses)]).toEqual([200]);
  });

  testManaging(signed);
  testHiddenData(signed);
  testAccessibility(signed);

  it('names the missing permission to a key that may only read the log', async () => {
    const body = { name: 'auditor', type: 'management', permissions: ['log:read'] };
    const { key } = (await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body }))
      .body;
    const other = await openConsole(vault.url, { colorScheme: 'light', width: 1280 });
    try {
      await other.page.getByLabel('API key').fill('key_mgt_wrong');
      await other.page.getByRole('button', { name: 'Sign in' }).click();
      await other.page.getByText('This key is not valid.').waitFor();
      await other.page.getByLabel('API key').fill(key);
      await other.page.getByRole('button', { name: 'Sign in' }).click();
      await other.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      for (const [screen, permission] of Object.entries(missing)) {
        await other.visit(`#/${screen}`);
        expect([screen, await other.page.locator('main').innerText()]).toEqual([
          screen,
          expect.stringContaining(permission),
        ]);
      }
      expect(other.faults).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it('ends the session at sign-out: its cookie opens nothing afterwards', async () => {
    const { page, context } = shown;
    const stolen = (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
    const headers = { cookie: stolen, 'SVC-CONSOLE-SESSION': stolen.split(/[=.]/)[1] ?? '' };
    const byCookie = () => fetch(`${vault.url}/logs?size=1`, { headers });
    expect((await byCookie()).status).toBe(200);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect((await byCookie()).status).toBe(401);
    expect(await context.cookies()).toEqual([]);
  });
});

/** The permission that each screen names to a key that may only read the log. */
const missing = {
  tokens: 'token:read',
  applications: 'application:read',
  reactors: 'reactor:read',
  'reactors/new': 'reactor:create',
  operations: 'tenant:update',
  tenant: 'report:read',
};

/** The number of the line beside which a mark of the editor stands. */
async function lineOf(mark: Locator): Promise<number> {
  const top = (await mark.boundingBox())?.y ?? 0;
  for (const line of await mark.page().locator('.cm-lineNumbers .cm-gutterElement').all()) {
    const box = await line.boundingBox();
    if (box && Math.abs(box.y - top) < box.height / 2) return Number(await line.innerText());
  }
  return 0;
}
