import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, it } from 'vitest';
import { type ConsolePage } from './browser.ts';
import type { Signed } from './managing.ts';

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

/** The rules of axe and the policy, on every screen and dialog. `signed`: a browser with all permissions. */
export function testAccessibility(signed: () => Signed): void {
  const get = async <Body>(path: string): Promise<Body> =>
    (await signed().vault.client().expect<Body>(200, 'GET', path)).body;

  it('has no fault by axe in both widths and themes, and none by the Content-Security-Policy', async () => {
    const { demo, shown } = signed();
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
          for (const fault of await faultsByAxe(shown, rules))
            faults.push([screen, width, colorScheme, fault]);
        }
        const needed = await shown.page.evaluate('document.documentElement.scrollWidth');
        if (needed !== width) faults.push([screen, width, `is ${String(needed)} wide`]);
      }
    }
    expect(faults).toEqual([]);
    expect(shown.faults).toEqual([]);
  });

  it('has no fault by axe in its dialogs, in both widths and themes', async () => {
    const { demo, shown } = signed();
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
          for (const fault of await faultsByAxe(shown, rules))
            faults.push([screen, width, colorScheme, fault]);
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
}

async function faultsByAxe({ page }: ConsolePage, rules?: readonly string[]): Promise<unknown[]> {
  // Evaluated by the debugger, which the policy of the page does not bind.
  if (await page.evaluate('globalThis.axe === undefined')) await page.evaluate(axe);
  const options = JSON.stringify(rules ? { runOnly: rules } : {});
  return page.evaluate<unknown[]>(
    `axe.run(${options}).then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 120))]))`,
  );
}
