import { cardNumber } from '@token-vault/test-support';
import { expect, it } from 'vitest';
import { hostile, markup } from './hostile.ts';
import type { Signed } from './managing.ts';

/** Data of cards, and texts that are markup, in the pages. `signed`: a browser with all permissions. */
export function testHiddenData(signed: () => Signed): void {
  it('never contains the number of a card in the page, its addresses, its storage or an answer', async () => {
    const { vault, demo, shown } = signed();
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
    const { vault, demo, shown } = signed();
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
}

const revealing = {
  description: '',
  priority: 1,
  container: '/',
  transform: 'reveal',
  permissions: ['token:read'],
};
