import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { createClient } from '@token-vault/test-support';
import { expect } from 'vitest';
import { root } from '../files.ts';
import type { Engine } from './engine.ts';

const run = promisify(execFile);

/** The content that old-volume/fill.mjs left in the vault. */
export interface OldVault {
  readonly managementKey: string;
  readonly backendKey: string;
  readonly revealKey: string;
  readonly goneKey: string;
  readonly tokens: readonly { readonly id: string; readonly data: Readonly<Record<string, unknown>> }[];
  readonly erasedId: string;
  readonly reactor: { readonly id: string; readonly args: object; readonly raw: unknown };
  readonly logEntries: number;
}

const archive = path.join(root, 'deploy/test/old-volume/vault.tar.xz');
const extract = (...args: string[]) => run('tar', ['--extract', '--file', archive, ...args]);

/** Makes a volume of the data directory of an older release. */
export async function createOldVolume({ docker, attempt }: Engine, volume: string): Promise<OldVault> {
  await attempt('volume', 'rm', '--force', volume);
  await docker('volume', 'create', volume);
  const place = await docker('volume', 'inspect', '--format', '{{.Mountpoint}}', volume);
  await extract('--directory', place, '--strip-components', '1', 'data');
  await run('chown', ['--recursive', '1000:1000', place]);
  const { stdout } = await extract('--to-stdout', 'expected.json');
  return JSON.parse(stdout) as OldVault;
}

/** @throws Error when the vault at `url` does not have all that the older release had */
export async function expectOldVault(old: OldVault, url: string): Promise<void> {
  const [manager, backend, payments] = [old.managementKey, old.backendKey, old.revealKey].map((key) =>
    createClient(url, key),
  );
  for (const { id, data } of old.tokens)
    expect((await payments!.expect<{ data: unknown }>(200, 'GET', `/tokens/${id}`)).body.data).toEqual(data);
  const [card] = old.tokens;
  const masked = await backend!.expect(200, 'GET', `/tokens/${card?.id}`);
  expect(masked.text).toContain(`XXXXXXXXXXXX${String(card?.data['number']).slice(-4)}`);
  await payments!.expect(404, 'GET', `/tokens/${old.erasedId}`);
  await createClient(url, old.goneKey).expect(401, 'GET', `/tokens/${card?.id}`);
  const { id, args, raw } = old.reactor;
  const ran = await backend!.expect<{ raw: unknown }>(200, 'POST', `/reactors/${id}/react`, {
    body: { args },
  });
  expect(ran.body.raw).toEqual(raw);
  const log = await manager!.expect<{ pagination: { total_items: number } }>(200, 'GET', '/logs');
  expect(log.body.pagination.total_items).toBeGreaterThan(old.logEntries);
}
