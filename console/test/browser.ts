import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Demo } from './demo.ts';

const executablePath = '/usr/bin/chromium';
export const hasChromium = existsSync(executablePath);

const args = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Theme {
  readonly colorScheme: 'light' | 'dark';
  readonly width: number;
  /** The browser keeps pages that a person leaves, for its Back button. */
  readonly keepsPages?: boolean;
}

/** A page of the console, and the events that must not happen in it. */
export interface ConsolePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Violations of the Content-Security-Policy, errors of scripts, dialogs and requests to other hosts. */
  readonly faults: readonly string[];
  /** The bodies of all answers that came over the network. */
  readonly answers: readonly string[];
  readonly urls: readonly string[];
  /** Goes to a screen and waits for its content. */
  visit(hash: string): Promise<void>;
  close(): Promise<void>;
}

export async function openConsole(
  url: string,
  { colorScheme, width, keepsPages }: Theme,
): Promise<ConsolePage> {
  const profile = await mkdtemp(path.join(tmpdir(), 'token-vault-test-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args,
    ignoreDefaultArgs: keepsPages ? ['--disable-back-forward-cache'] : [],
    colorScheme,
    viewport: { width, height: 900 },
  });
  const page = context.pages()[0] ?? (await context.newPage());
  const faults: string[] = [];
  const answers: string[] = [];
  const urls: string[] = [];
  await page.exposeFunction('reportFault', (fault: string) => void faults.push(fault));
  await page.addInitScript(`
    document.addEventListener('securitypolicyviolation', (event) =>
      reportFault('csp: ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample));
  `);
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    urls.push(request.url());
    if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url()))
      faults.push(`request: ${request.url()}`);
  });
  page.on('response', (response) => {
    response.text().then(
      (text) => answers.push(text),
      // An answer without a body, or of a page that was closed.
      () => undefined,
    );
  });
  await page.goto(`${url}/console/`);
  return {
    page,
    context,
    faults,
    answers,
    urls,
    async visit(hash) {
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await page.waitForLoadState('networkidle');
      await page.getByText('Loading …').first().waitFor({ state: 'detached' });
    },
    async close() {
      await context.close();
      await rm(profile, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Signs in with the management key and adds the private one. */
export async function signIn({ page }: Pick<ConsolePage, 'page'>, demo: Demo): Promise<void> {
  await page.getByLabel('API key').fill(demo.managementKey);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByRole('button', { name: 'Add key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('API key').fill(demo.privateKey);
  await dialog.getByRole('button', { name: 'Add key' }).click();
  await dialog.waitFor({ state: 'detached' });
}
