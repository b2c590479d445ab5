import { expect } from 'vitest';
import {
  cardNumber,
  cardToken,
  createClient,
  plainApplication,
  revealingApplication,
  type Client,
} from '@token-vault/test-support';

export interface KeptCard {
  readonly number: string;
  readonly path: string;
  /** The key of a caller that sees it in plaintext. */
  readonly key: string;
}

async function applicationKey(manager: Client, body: object): Promise<string> {
  const made = await manager.expect<{ key: string }>(201, 'POST', '/applications', { body });
  return made.body.key;
}

/** Puts a card into the vault; one caller reads it masked, another in plaintext. */
export async function cardInAndOut(url: string, managementKey: string): Promise<KeptCard> {
  const manager = createClient(url, managementKey);
  const backend = manager.withKey(await applicationKey(manager, plainApplication()));
  const key = await applicationKey(manager, revealingApplication());
  const number = cardNumber();
  const made = await backend.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken(number) });
  const card = { number, path: `/tokens/${made.body.id}`, key };
  const masked = await backend.expect(200, 'GET', card.path);
  expect(masked.text).not.toContain(number);
  expect(masked.text).toContain(`XXXXXXXXXXXX${number.slice(-4)}`);
  await expectKept(card, url);
  return card;
}

/** @throws Error when the vault at `url` does not show the card */
export async function expectKept({ number, path, key }: KeptCard, url: string): Promise<void> {
  const shown = await createClient(url, key).expect<{ data: { number: string } }>(200, 'GET', path);
  expect(shown.body.data.number).toBe(number);
}

const code = `module.exports = async ({ args }) => {
  let network = 'reached';
  try { await fetch('http://127.0.0.1:8080/health/live'); } catch (error) { network = 'refused'; }
  return { raw: { last4: args.number.slice(-4), network } };
};`;

/** Runs code of a tenant over a card that it may use. The addresses of the container are not reached by it. */
export async function runReactor(url: string, managementKey: string): Promise<void> {
  const manager = createClient(url, managementKey);
  const permissions = ['token:create', 'token:use'];
  const user = manager.withKey(await applicationKey(manager, { name: 'user', type: 'private', permissions }));
  const number = cardNumber();
  const card = await user.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken(number) });
  const reactor = await manager.expect<{ id: string }>(201, 'POST', '/reactors', {
    body: { name: 'r', code, configuration: {} },
  });
  const args = { number: `{{ ${card.body.id} | json: '$.number' }}` };
  const ran = await user.expect<{ raw: unknown }>(200, 'POST', `/reactors/${reactor.body.id}/react`, {
    body: { args },
  });
  expect(ran.body.raw).toEqual({ last4: number.slice(-4), network: 'refused' });
}

/** Whether each wall of the sandbox stands, by `/metrics`. */
export function wallsOf(metrics: string): Readonly<Record<string, boolean>> {
  const lines = metrics.matchAll(/^vault_sandbox_wall\{wall="(\w+)",.*\} ([01])$/gm);
  return Object.fromEntries([...lines].map(([, wall = '', value]) => [wall, value === '1'] as const));
}

/** The names of the walls that the log of a process says are missing. */
export function missingWallsOf(log: string): readonly string[] {
  const lines = log.split('\n').filter((line) => line.includes('the sandbox of reactors lacks walls'));
  return (JSON.parse(lines.at(-1) ?? '{"reason":""}') as { reason: string }).reason.split(', ');
}
