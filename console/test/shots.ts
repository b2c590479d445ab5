import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createDataDirectory, removeDataDirectory, startStandaloneProcess } from '@token-vault/test-support';
import { hasChromium, openConsole, signIn } from './browser.ts';
import { fillDemo } from './demo.ts';

// `npm run console:shots`: the pictures of the README, from a vault with made-up data.

const images = path.resolve(import.meta.dirname, '../../docs/images');
const day = (ago: number) =>
  `${new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)}T00:00:00.000Z`;
const screens = ['overview', `audit?from=${day(7)}&to=${day(0)}`, 'applications'];

if (!hasChromium) {
  process.stderr.write('skipped: Chromium is not installed (apt-get install chromium)\n');
  process.exit(0);
}
const dataDir = await createDataDirectory();
const vault = await startStandaloneProcess({ dataDir });
try {
  const demo = await fillDemo(vault, { tokens: 600, days: 30 });
  await mkdir(images, { recursive: true });
  for (const colorScheme of ['light', 'dark'] as const) {
    const shown = await openConsole(vault.url, { colorScheme, width: 1280 });
    await signIn(shown, demo);
    for (const screen of screens) {
      await shown.visit(`#/${screen}`);
      const file = path.join(images, `console-${screen.replace(/\W.*/, '')}-${colorScheme}.png`);
      await shown.page.screenshot({ path: file, animations: 'disabled' });
      process.stdout.write(`${path.relative(process.cwd(), file)}\n`);
    }
    await shown.close();
  }
} finally {
  await vault.stop();
  await removeDataDirectory(dataDir);
}
