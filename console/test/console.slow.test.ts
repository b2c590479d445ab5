import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
import {
  cardNumber,
  createDataDirectory,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import type { Locator } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ConsolePage, hasChromium, openConsole, signIn } from './browser.ts';
import { type Demo, fillDemo } from './demo.ts';
import { hostile, markup } from './hostile.ts';
import { testManaging } from './managing.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const screens = [
  'overview',
  'tokens',
  'applications',
  'audit',
  'reactors',
  'reactors/new',
  'operations',
  'tenant',
];

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

  // A test that failed may have left a dialog open, which hides every button below it.
  beforeEach(async () => {
    await shown.page.setViewportSize({ width: 1280, height: 900 });
    await shown.page.goto(`${vault.url}/console/`);
    await shown.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  });

  afterAll(async () => {
    await shown?.close();
    await vault?.stop();
    await removeDataDirectory(dataDir);
  });

  const get = async <Body>(path: string): Promise<Body> =>
    (await vault.client().expect<Body>(200, 'GET', path)).body;
  const totalOf = async (query: Record<string, string>): Promise<number> =>
    (await get<Listed>(`/logs?size=0&${new URLSearchParams(query).toString()}`)).pagination.total_items;

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

  it('shows the log as counts over time and as a heat map', async () => {
    const { page } = shown;
    // Whole days of the past, which no request of this test changes.
    const day = (ago: number) =>
      `${new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)}T00:00:00.000Z`;
    const [from, to] = [day(6), day(2)];
    await shown.visit(`#/audit?from=${from}&to=${to}`);
    const range = { start_date: from, end_date: to };
    const all = await totalOf(range);
    expect(all).toBeGreaterThan(200);
    await page.getByRole('img', { name: `${all.toLocaleString('en')} log entries, by hour` }).waitFor();
    await page.getByText('Numbers by hour').click();
    const counts = await page
      .getByRole('table', { name: 'Numbers by hour' })
      .locator('tbody tr')
      .allInnerTexts();
    const summed = counts.map((row) => Number(row.trim().split(/\s+/).at(-1)?.replaceAll(',', '')));
    expect(summed.reduce((sum, count) => sum + count, 0)).toBe(all);
    const bars = await page.locator('.chart-room svg [aria-label="rect"] rect').count();
    expect(bars).toBe(counts.length);

    const row = page.locator('.heat tbody tr').filter({ hasText: 'settlement' });
    const cells = await Promise.all((await row.getByRole('button').all()).map(labelAndCount));
    const filters = { actor_id: demo.applicationIds['settlement'] ?? '', transform: 'reveal' };
    expect(cells.reduce((sum, [, count]) => sum + count, 0)).toBe(await totalOf({ ...range, ...filters }));
    const [label = '', count = 0] = cells[Math.floor(cells.length / 2)] ?? [];
    const hour = Date.parse(`${/\d{4}-\d\d-\d\d \d\d:\d\d/.exec(label)?.[0].replace(' ', 'T') ?? ''}Z`);
    const ofHour = {
      start_date: new Date(hour).toISOString(),
      end_date: new Date(hour + 3_600_000).toISOString(),
    };
    expect(count).toBe(await totalOf({ ...ofHour, ...filters }));

    await row.getByRole('button', { name: label }).click();
    await page.getByText(`1–${Math.min(25, count)} of ${count}`).waitFor();
    const entries = page.getByRole('table', { name: 'Log entries' });
    expect(await entries.locator('tbody tr').filter({ hasText: 'reveal' }).count()).toBe(Math.min(25, count));
  });

  it('selects a time range by dragging in the chart, and downloads the shown range as a file', async () => {
    const { page } = shown;
    await shown.visit('#/audit?range=30d');
    const brush = page.locator('.brush');
    const box = await brush.boundingBox();
    if (box === null) throw new Error('no brush');
    await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 20);
    await page.mouse.up();
    await page.waitForURL(/from=.*&to=/);
    await page.waitForLoadState('networkidle');
    const { searchParams } = new URL(page.url().replace('/#', ''));
    const total = await totalOf({
      start_date: searchParams.get('from') ?? '',
      end_date: searchParams.get('to') ?? '',
    });
    expect(total).toBeGreaterThan(10);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export NDJSON' }).click(),
    ]);
    const lines = readFileSync(await download.path(), 'utf8')
      .trimEnd()
      .split('\n');
    expect(lines).toHaveLength(total);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ operation: 'read', entity_type: 'card' });
  });

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

  testManaging(() => ({ vault, demo, shown }));

  it('never contains the number of a card in the page, its addresses, its storage or an answer', async () => {
    const { page, answers } = shown;
    const number = cardNumber();
    const backend = vault.client(demo.privateKey);
    const body = { type: 'card', data: { number, cvc: '737' }, metadata: { marked: 'yes' } };
    const { id } = (await backend.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body;
    const reader = { name: 'revealing', type: 'private', rules: [revealing] };
    const { key } = (
      await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body: reader })
    ).body;
    expect((await vault.client(key).expect(200, 'GET', `/tokens/${id}`)).text).toContain(number);
    const start = answers.length;
    const pages: string[] = [];
    for (const screen of ['tokens', `tokens/${id}`, 'audit', 'overview', 'reactors', 'applications']) {
      await shown.visit(`#/${screen}`);
      pages.push(await page.content());
    }
    await shown.visit('#/tokens');
    await page.getByLabel('Metadata key').fill('marked');
    await page.getByLabel('Metadata value').fill('yes');
    await page.getByLabel('Container and below').fill('/pci/');
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByText('1–1 of 1').waitFor();
    pages.push(await page.content());
    expect(pages.at(-1)).toContain(`XXXXXXXXXXXX${number.slice(-4)}`);
    const storage = await page.evaluate<string>(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }])',
    );
    const seen = [...pages, ...answers.slice(start), ...shown.urls, storage];
    expect(seen.filter((text) => text.includes(number))).toEqual([]);
    expect(answers.slice(start).join()).toContain(id);
  });

  it('shows hostile names, metadata, reasons and results as plain text', async () => {
    const { page } = shown;
    const made = await hostile(vault, demo);
    for (const screen of ['applications', 'reactors', 'tokens', 'audit', ...made.screens])
      await shown.visit(`#/${screen}`);
    await shown.visit(`#/${made.reactor}`);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('pre').filter({ hasText: 'onerror' }).waitFor();
    expect(await page.locator('pre').innerText()).toContain(markup.replaceAll('"', '\\"'));
    await shown.visit(`#/${made.token}`);
    expect(await page.locator('main').innerText()).toContain(markup);
    expect(await page.locator('main :is(img, script, iframe, object, base, form[action])').count()).toBe(0);
    expect(await page.evaluate('globalThis.pwned')).toBeUndefined();
  });

  it('has no fault by axe in both widths and themes, and none by the Content-Security-Policy', async () => {
    const token = `tokens/${demo.tokenIds[0]}`;
    const application = `applications/${demo.applicationIds['backend']}`;
    const faults: unknown[] = [];
    for (const width of [1280, 390]) {
      await shown.page.setViewportSize({ width, height: 900 });
      for (const screen of [...screens, token, application]) {
        await shown.visit(`#/${screen}`);
        for (const colorScheme of ['light', 'dark'] as const) {
          await shown.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          // Of themes only the colours differ.
          const rules = colorScheme === 'light' ? undefined : ['color-contrast'];
          for (const fault of await faultsByAxe(rules)) faults.push([screen, width, colorScheme, fault]);
        }
        const needed = await shown.page.evaluate('document.documentElement.scrollWidth');
        if (needed !== width) faults.push([screen, width, `is ${String(needed)} wide`]);
      }
    }
    expect(faults).toEqual([]);
    expect(shown.faults).toEqual([]);
  });

  it('has no fault by axe in its dialogs, in both widths and themes', async () => {
    const { page } = shown;
    const application = `applications/${demo.applicationIds['backend']}`;
    const { data: reactors } = await get<Listed>('/reactors?size=1');
    const dialogs: readonly (readonly [string, RegExp])[] = [
      ['overview', /^Add key$/],
      ['applications', /^Create application$/],
      [application, /^Edit$/],
      [application, /^Add key$/],
      [application, /^Regenerate$/],
      [`reactors/${reactors[0]?.id ?? ''}`, /^Choose a token …$/],
      ['operations', /^rebuild log$/],
    ];
    const faults: unknown[] = [];
    for (const [screen, name] of dialogs) {
      await shown.visit(`#/${screen}`);
      await page.getByRole('button', { name }).last().click();
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      await page.waitForLoadState('networkidle');
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 900 });
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          const rules = colorScheme === 'light' ? undefined : ['color-contrast'];
          for (const fault of await faultsByAxe(rules)) faults.push([screen, width, colorScheme, fault]);
        }
        const box = await dialog.boundingBox();
        if (box === null || box.x < 0 || box.x + box.width > width)
          faults.push([screen, width, 'is too wide']);
      }
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    expect(faults).toEqual([]);
  });

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
    const byCookie = () => fetch(`${vault.url}/logs?size=1`, { headers: { cookie: stolen } });
    expect((await byCookie()).status).toBe(200);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect((await byCookie()).status).toBe(401);
    expect(await context.cookies()).toEqual([]);
  });

  async function faultsByAxe(rules?: readonly string[]): Promise<unknown[]> {
    const { page } = shown;
    // Evaluated by the debugger, which the policy of the page does not bind.
    if (await page.evaluate('globalThis.axe === undefined')) await page.evaluate(axe);
    const options = JSON.stringify(rules ? { runOnly: rules } : {});
    return page.evaluate<unknown[]>(
      `axe.run(${options}).then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 120))]))`,
    );
  }
});

const revealing = {
  description: '',
  priority: 1,
  container: '/',
  transform: 'reveal',
  permissions: ['token:read'],
};

/** The permission that each screen names to a key that may only read the log. */
const missing = {
  tokens: 'token:read',
  applications: 'application:read',
  reactors: 'reactor:read',
  'reactors/new': 'reactor:create',
  operations: 'tenant:update',
  tenant: 'report:read',
};

const labelAndCount = async (cell: Locator): Promise<[string, number]> => [
  (await cell.getAttribute('aria-label')) ?? '',
  Number(await cell.getAttribute('data-count')),
];

/** The number of the line beside which a mark of the editor stands. */
async function lineOf(mark: Locator): Promise<number> {
  const top = (await mark.boundingBox())?.y ?? 0;
  for (const line of await mark.page().locator('.cm-lineNumbers .cm-gutterElement').all()) {
    const box = await line.boundingBox();
    if (box && Math.abs(box.y - top) < box.height / 2) return Number(await line.innerText());
  }
  return 0;
}
