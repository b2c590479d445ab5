import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Application, LogVerification, UsageReport } from '@token-vault/contracts';
import {
  createTestPool,
  resultOf,
  runCommand,
  type StandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { expect, it } from 'vitest';
import type { ConsolePage } from './browser.ts';
import type { Demo } from './demo.ts';

export interface Signed {
  readonly vault: StandaloneProcess;
  readonly demo: Demo;
  readonly shown: ConsolePage;
}

/** A server on this machine that accepts all requests. */
async function startServer({ page = '', status = 200 }) {
  const bodies: string[] = [];
  const started = { port: 0, bodies, status, close: () => Promise.resolve() };
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      bodies.push(body);
      response.writeHead(started.status, { 'Content-Type': 'text/html' }).end(page);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  started.port = (server.address() as AddressInfo).port;
  started.close = () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return started;
}

/** The tasks of a person in the console. `signed`: a browser with all permissions. */
export function testManaging(signed: () => Signed): void {
  const get = async <Body>(path: string): Promise<Body> =>
    (await signed().vault.client().expect<Body>(200, 'GET', path)).body;

  it('makes an application, edits its rules, and shows their effect in the matrix and at a read', async () => {
    const { vault, demo, shown } = signed();
    const { page } = shown;
    await shown.visit('#/applications');
    await page.getByRole('button', { name: 'Create application' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill('refunds');
    await dialog.getByRole('button', { name: 'Add rule' }).click();
    const rule = dialog.getByRole('group', { name: 'Rule 1' });
    await rule.getByLabel('Container').fill('/pci/');
    await rule.getByLabel('Shows data as').selectOption('redact');
    await rule.getByLabel('token:read').check();
    await dialog.getByRole('button', { name: 'Create', exact: true }).click();
    const key = await page.locator('.secret').innerText();
    await page.getByRole('button', { name: 'I have the key' }).click();
    const [card = ''] = demo.tokenIds;
    const read = async () =>
      (await vault.client(key).expect<{ data?: unknown }>(200, 'GET', `/tokens/${card}`)).body.data;
    expect(await read()).toBeUndefined();
    const made = (await get<{ data: Application[] }>('/applications?size=100')).data;
    const { id } = made.find(({ name }) => name === 'refunds') ?? { id: '' };
    await shown.visit(`#/applications/${id}`);
    await page.getByRole('button', { name: 'Edit' }).click();
    await rule.getByLabel('Shows data as').selectOption('mask');
    await rule.getByLabel('Description').fill('last four digits');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('table', { name: 'Access rules' }).getByText('last four digits').waitFor();
    expect(await read()).toMatchObject({ number: expect.stringMatching(/^X{12}\d{4}$/) as string });
    expect((await get<Application>(`/applications/${id}`)).rules).toMatchObject([
      { priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] },
    ]);
  });

  it('gives code of a reactor a chosen token in masked form, and shows the output of the code', async () => {
    const { vault, demo, shown } = signed();
    const { page } = shown;
    const code = `module.exports = async (req) => {
      const token = await req.svc.tokens.retrieve(req.args.token);
      console.log('number', token.data.number);
      return { raw: { type: token.type } };
    };`;
    const application = { id: demo.applicationIds['settlement'] };
    const body = { name: 'reader', code, configuration: {}, application };
    const { id } = (await vault.client().expect<{ id: string }>(201, 'POST', '/reactors', { body })).body;
    await shown.visit(`#/reactors/${id}`);
    await page.getByRole('button', { name: 'Choose a token …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Type of the token').selectOption('card');
    await dialog
      .getByRole('button', { name: /^Choose [\da-f]/ })
      .first()
      .click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('"type": "card"').waitFor();
    expect(await page.getByRole('log', { name: 'Console' }).innerText()).toMatch(/^number X{12}\d{4}$/);
    await page.getByLabel('Arguments (a JSON object)').fill(`{"card": "{{ ${demo.tokenIds[0]} }}"}`);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('Your key does not allow this.').waitFor();
  });

  it('shows the lines that the code of a failed run printed', async () => {
    const { vault, shown } = signed();
    const { page } = shown;
    const code = `module.exports = async (req) => { console.warn('amount', req.args.amount); throw new Error('no'); };`;
    const body = { name: 'failing', code, configuration: {} };
    const { id } = (await vault.client().expect<{ id: string }>(201, 'POST', '/reactors', { body })).body;
    await shown.visit(`#/reactors/${id}`);
    await page.getByLabel('Arguments (a JSON object)').fill('{"amount": 7}');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('log', { name: 'Console' }).getByText('warn: amount 7').waitFor();
  });

  it('delivers the result of a run again that the receiver did not accept', async () => {
    const { vault, demo, shown } = signed();
    const { page } = shown;
    const receiver = await startServer({ status: 500 });
    try {
      const code = 'module.exports = async () => ({ raw: { done: true } });';
      const body = { name: 'told', code, configuration: {} };
      const { id } = (await vault.client().expect<{ id: string }>(201, 'POST', '/reactors', { body })).body;
      const run = { callback_url: `http://127.0.0.1:${receiver.port}/` };
      await vault.client(demo.privateKey).expect(202, 'POST', `/reactors/${id}/react`, { body: run });
      await waitUntil(() => receiver.bodies.length > 0, { what: 'the webhook', timeoutMs: 20_000 });
      await shown.visit(`#/reactors/${id}`);
      const button = page.getByRole('button', { name: /^Deliver run .* again$/ });
      await button.waitFor();
      const asked = page.waitForResponse((response) => response.url().endsWith('/redeliver'));
      await button.click();
      expect((await asked).status()).toBe(202);
      // Not before: the vault's own next attempt would deliver the result, and the request would be 409.
      receiver.status = 200;
      await page.getByText(/^delivered, \d+ attempts$/).waitFor();
      expect(await button.count()).toBe(0);
      expect(new Set(receiver.bodies).size).toBe(1);
    } finally {
      await receiver.close();
    }
  });

  it('pauses a read model and resumes it', async () => {
    const { shown } = signed();
    const { page } = shown;
    await shown.visit('#/operations');
    const act = async (action: 'pause' | 'resume', state: string) => {
      await page.getByRole('button', { name: `${action} alerts` }).click();
      if (action === 'pause')
        await page.getByRole('dialog').getByRole('button', { name: 'Pause', exact: true }).click();
      await page
        .getByRole('row')
        .filter({ hasText: /^alerts \d/ })
        .getByText(state, { exact: true })
        .waitFor();
    };
    await act('pause', 'paused');
    await act('resume', 'live');
  });

  it('cancels a rebuild, and leaves the live read model as it is', async () => {
    const { vault, shown } = signed();
    const { page } = shown;
    const pool = createTestPool(await vault.databaseUrl(), { max: 1 });
    const holder = await pool.connect();
    try {
      // The rebuild waits for this lock before it takes the place of the live one.
      await holder.query(`begin; select from projections.checkpoint where name = 'alerts' for no key update`);
      await shown.visit('#/operations');
      await page.getByRole('button', { name: 'rebuild alerts', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Rebuild' }).click();
      await page.getByRole('progressbar', { name: 'Rebuild of alerts' }).waitFor();
      await page.getByRole('button', { name: 'cancel alerts', exact: true }).click();
      await page.getByRole('button', { name: 'rebuild alerts', exact: true }).waitFor();
      const { rows } = await holder.query('select name from projections.rebuild');
      expect(rows).toEqual([]);
    } finally {
      await holder.query('rollback');
      holder.release();
      await pool.end();
    }
    const row = page.getByRole('row').filter({ hasText: /^alerts \d/ });
    await row.getByText('live', { exact: true }).waitFor();
  });

  it('saves the settings of the tenant, and shows its use by month with the numbers of the report', async () => {
    const { shown } = signed();
    const { page } = shown;
    await shown.visit('#/tenant');
    await page.getByLabel('Name of the tenant').fill('Shop');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    const setting = page.getByRole('group', { name: 'Settings 1' });
    await setting.getByLabel('Name').fill('deduplicate_tokens');
    await setting.getByLabel('Value').fill('false');
    const saved = page.waitForResponse((response) => response.request().method() === 'PUT');
    await page.getByRole('button', { name: 'Save' }).click();
    expect((await saved).status()).toBe(200);
    expect(await get('/tenants/self')).toMatchObject({
      name: 'Shop',
      settings: { deduplicate_tokens: 'false' },
    });
    const { token_report: report } = await get<UsageReport>('/tenants/self/reports/usage?months=12');
    expect(report.months?.filter(({ monthly_active_tokens: count }) => count > 0).length).toBeGreaterThan(0);
    await page.getByText('Numbers by month').click();
    const rows = await page
      .getByRole('table', { name: 'Numbers by month' })
      .locator('tbody tr')
      .allInnerTexts();
    expect(rows.map((row) => row.trim().split(/\s+/))).toEqual(
      report.months?.map(({ month, monthly_active_tokens: count }) => [month, String(count)]),
    );
  });

  it('verifies the certificate of a destroyed token, and the log up to here', async () => {
    const { vault, demo, shown } = signed();
    const { page } = shown;
    const { dataDir, credentials } = vault;
    const id = demo.tokenIds[3] ?? '';
    const backend = vault.client(demo.privateKey);
    await backend.expect(204, 'DELETE', `/tokens/${id}`);
    const at = `/tokens/${id}/erasure-certificate`;
    const isErased = async () => (await vault.client().request('GET', at)).status === 200;
    await waitUntil(isErased, { what: 'the keys of a deleted token' });
    const key = (await resultOf(dataDir, 'audit', 'public-key', '--tenant', credentials.tenant_id)).trim();
    // Another process may be signing at this moment: the vault does so every minute.
    const isSealed = async () => (await runCommand(dataDir, ['audit', 'seal'])).code === 0;
    await waitUntil(isSealed, { what: 'the seal of the log', timeoutMs: 30_000 });
    await shown.visit(`#/tokens/${id}`);
    await page.getByText('not found or destroyed').waitFor();
    await page.getByRole('button', { name: 'Get the certificate' }).click();
    await page.getByLabel('Public key of the tenant').fill(key);
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText('The signature is valid.').waitFor();
    const certificate = page.getByLabel('Certificate (JSON)');
    await certificate.fill((await certificate.inputValue()).replace('"card"', '"bank"'));
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText('The signature is not valid.').waitFor();

    await shown.visit('#/audit?range=1h');
    await page.getByRole('button', { name: 'Verify up to here' }).click();
    const outcome = page.getByText(/^The log is as it was signed: /);
    await outcome.waitFor();
    let part = await get<LogVerification>('/logs/verification');
    let counted = part.events;
    while (part.cursor !== undefined) {
      part = await get<LogVerification>(`/logs/verification?cursor=${part.cursor}`);
      counted += part.events;
    }
    const told = Number(/: ([\d,]+) events/.exec(await outcome.innerText())?.[1]?.replaceAll(',', ''));
    expect(told).toBeGreaterThan(5_000);
    expect(told).toBeLessThanOrEqual(counted);
  });

  it('refuses requests of a page of another origin, although the browser sends the cookie', async () => {
    const { vault, shown } = signed();
    const other = await startServer({ page: '<!doctype html><title>other</title>' });
    const page = await shown.context.newPage();
    try {
      // The same site with another port: SameSite=Strict lets the cookie through.
      const { hostname } = new URL(vault.url);
      await page.goto(`http://${hostname}:${other.port}/`);
      const statuses: number[] = [];
      page.on('response', (response) => {
        if (response.url().startsWith(vault.url)) statuses.push(response.status());
      });
      const requests = [
        ['POST', '/transactions'],
        ['POST', '/console/session'],
        ['GET', '/logs?size=1'],
      ];
      const asked = JSON.stringify(requests.map(([method, path]) => [method, vault.url + path]));
      await page.evaluate(
        `Promise.allSettled(${asked}.map(([method, url]) => fetch(url, { method, mode: 'no-cors', credentials: 'include' })))`,
      );
      // Without the cookie they would be 401.
      expect(statuses).toEqual([403, 403, 403]);
      await page.setContent(
        `<form method="post" action="${vault.url}/transactions"><button>x</button></form>`,
      );
      const answered = page.waitForResponse((response) => response.url().endsWith('/transactions'));
      await page.getByRole('button').click();
      expect((await answered).status()).toBe(403);
    } finally {
      // The page is closed with the browser: Chromium sometimes never answers a request to close a page that a form has just left.
      await other.close();
    }
  });

  it('shows another tenant nothing of the vault as a whole', async () => {
    const { vault } = signed();
    const made = await resultOf(vault.dataDir, 'tenants', 'create', 'other', '--plan', 'standard');
    const other = vault.client(/key_mgt_\w+/.exec(made)?.[0]);
    expect((await other.request('GET', '/operations')).status).toBe(403);
    const body = { action: 'pause' };
    expect((await other.request('POST', '/operations/projections/alerts', { body })).status).toBe(403);
  });
}
