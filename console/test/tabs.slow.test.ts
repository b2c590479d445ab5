import {
  createDataDirectory,
  createTestPool,
  removeDataDirectory,
  resultOf,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ConsolePage, hasChromium, openConsole } from './browser.ts';

describe.skipIf(!hasChromium)('the tabs of a browser (skipped where Chromium is not installed)', () => {
  let dataDir: string;
  let vault: StandaloneProcess;
  let keyOfOther: string;
  let shown: ConsolePage;

  beforeAll(async () => {
    dataDir = await createDataDirectory();
    vault = await startStandaloneProcess({ dataDir });
    const made = await resultOf(dataDir, 'tenants', 'create', 'Other tenant');
    keyOfOther = /key_mgt_\w+/.exec(made)?.[0] ?? '';
  }, 120_000);
  afterAll(async () => {
    await vault?.stop();
    await removeDataDirectory(dataDir);
  });
  beforeEach(async () => {
    shown = await openConsole(vault.url, { colorScheme: 'light', width: 1280, keepsPages: true });
    await shown.page.getByLabel('API key').fill(vault.credentials.management_key);
    await shown.page.getByRole('button', { name: 'Sign in' }).click();
    await title(shown.page, 'Overview').waitFor();
  });
  afterEach(() => shown.close());

  const title = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
  /** The tenant and the applications that a page names. */
  const who = (page: Page) => page.locator('.who').innerText();
  const nameOf = async (key: string) =>
    (await vault.client(key).expect<{ name: string }>(200, 'GET', '/tenants/self')).body.name;

  async function newTab(): Promise<Page> {
    const page = await shown.context.newPage();
    await page.goto(`${vault.url}/console/`);
    await title(page, 'Overview').waitFor();
    return page;
  }
  async function addKey(page: Page, key: string): Promise<void> {
    await button(page, 'Add key').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('API key').fill(key);
    await button(page, 'Add key').last().click();
    await dialog.waitFor({ state: 'detached' });
  }
  /** As another tab does whose message has not come yet. */
  async function signInUnheard(key: string): Promise<void> {
    const headers = { 'SVC-API-KEY': key };
    expect((await shown.context.request.post(`${vault.url}/console/session`, { headers })).status()).toBe(
      201,
    );
  }

  it('write nothing to another tenant than they show', async () => {
    const { page } = shown;
    await shown.visit('#/tenant');
    await page.getByLabel('Name of the tenant').fill('Written');
    await signInUnheard(keyOfOther);
    const saved = page.waitForResponse((response) => response.request().method() === 'PUT');
    await button(page, 'Save').click();
    expect((await saved).status()).toBe(401);
    await title(page, 'Another session').waitFor();
    expect(await nameOf(keyOfOther)).toBe('Other tenant');
    expect(await nameOf(vault.credentials.management_key)).not.toBe('Written');
    expect(shown.faults).toEqual([]);
  });

  it.each(['applications', 'audit', 'reactors', 'tenant', 'operations', 'overview'])(
    'show nothing of another tenant than before: %s',
    async (screen) => {
      const { page, answers } = shown;
      await shown.visit('#/tokens');
      await signInUnheard(keyOfOther);
      const start = answers.length;
      await page.evaluate(`location.hash = '#/${screen}'`);
      await title(page, 'Another session').waitFor();
      expect(await page.locator('body').innerText()).not.toContain('Other tenant');
      const given = answers.slice(start).filter((answer) => !/"status":401/.test(answer));
      // The page asks which session the cookie is of.
      expect(given.filter((answer) => !/^{"id":.*"idle_expires_at"/.test(answer))).toEqual([]);
    },
  );

  it('show at once that another one has signed in to another tenant, and then that tenant if a person wants it', async () => {
    const { page } = shown;
    await shown.visit('#/applications');
    await addKey(await newTab(), keyOfOther);
    await title(page, 'Another session').waitFor();
    expect(await page.getByRole('table').count()).toBe(0);
    await button(page, 'Show the other session').click();
    await title(page, 'Applications').waitFor();
    expect(await who(page)).toContain('Other tenant');
    expect(shown.faults).toEqual([]);
  });

  it('go on with a key of the same tenant that another one has added, and keep what a person has written', async () => {
    const { page } = shown;
    const body = { name: 'Reader', type: 'private', permissions: ['token:read'] };
    const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body });
    await shown.visit('#/tenant');
    await page.getByLabel('Name of the tenant').fill('First tenant, renamed');
    await addKey(await newTab(), made.body.key);
    await page.locator('.who').getByText('Reader').waitFor();
    const saved = page.waitForResponse((response) => response.request().method() === 'PUT');
    await button(page, 'Save').click();
    expect((await saved).status()).toBe(200);
    expect(await nameOf(vault.credentials.management_key)).toBe('First tenant, renamed');
  });

  it('end with the sign-out in one of them', async () => {
    const { page } = shown;
    await shown.visit('#/applications');
    await button(await newTab(), 'Sign out').click();
    await title(page, 'Sign in').waitFor();
    expect(await page.getByRole('table').count()).toBe(0);
  });

  it('that the browser has kept for its Back button show nothing after a sign-out', async () => {
    const { page } = shown;
    await shown.visit('#/applications');
    await page.evaluate('globalThis.isKept = true');
    await page.goto(`${vault.url}/health/live`);
    // Not by another tab: the browser does not keep a page that gets its message.
    const [cookie] = await shown.context.cookies();
    const headers = { Origin: vault.url, 'SVC-CONSOLE-SESSION': cookie?.value.split('.')[0] ?? '' };
    expect((await shown.context.request.delete(`${vault.url}/console/session`, { headers })).status()).toBe(
      204,
    );
    await page.goBack({ waitUntil: 'commit' });
    expect(await page.evaluate('globalThis.isKept')).toBe(true);
    expect(await page.getByRole('table').count()).toBe(0);
    await title(page, 'Sign in').waitFor();
  });

  it('hide all data at a sign-out that the vault cannot confirm, and say so until it has', async () => {
    const { page } = shown;
    await shown.visit('#/applications');
    const pool = createTestPool(await vault.databaseUrl(), { max: 1 });
    const holder = await pool.connect();
    try {
      await holder.query('begin; select from projections.access for update');
      await button(page, 'Sign out').click();
      await title(page, 'Not signed out yet').waitFor();
      expect(await page.getByRole('table').count()).toBe(0);
      expect(await page.getByRole('alert').innerText()).not.toBe('');
    } finally {
      // Closes the connection, which ends the transaction.
      holder.release(true);
      await pool.end();
    }
    await button(page, 'Try again').click();
    await title(page, 'Sign in').waitFor();
    expect(shown.faults).toEqual([]);
  });
});
