import { readFileSync } from 'node:fs';
import type { Locator } from 'playwright-core';
import { expect, it } from 'vitest';
import type { Signed } from './managing.ts';

interface Listed {
  readonly pagination: { readonly total_items: number };
  readonly data: readonly { readonly id: string }[];
}

/** The log as charts and as a file. `signed`: a browser with all permissions. */
export function testLog(signed: () => Signed): void {
  const totalOf = async (query: Record<string, string>): Promise<number> => {
    const path = `/logs?size=0&${new URLSearchParams(query).toString()}`;
    return (await signed().vault.client().expect<Listed>(200, 'GET', path)).body.pagination.total_items;
  };

  it('shows the log as counts over time and as a heat map', async () => {
    const { demo, shown } = signed();
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
    const { shown } = signed();
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
}

const labelAndCount = async (cell: Locator): Promise<[string, number]> => [
  (await cell.getAttribute('aria-label')) ?? '',
  Number(await cell.getAttribute('data-count')),
];
