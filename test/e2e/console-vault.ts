import type { Application, LogEntry, Token } from '@token-vault/contracts';
import { cardNumber } from '@token-vault/test-support';
import { afterAll, beforeAll } from 'vitest';
import { standIn } from '../world/stand-in.ts';
import { browser, signedIn, signIn } from './console-browser.ts';
import { startVault, type RunningVault } from './running-vault.ts';

export const everyTokenPermission = ['create', 'read', 'update', 'delete', 'search', 'use'].map(
  (verb) => `token:${verb}`,
);

export const keyOf = ({ key = '' }: Application): string => key;

/** A vault with an application whose rule reveals all, a card, and browsers that sign in to the console. */
export function useConsole() {
  const number = cardNumber();
  let started: RunningVault;
  let revealing: Application;
  let token: Token;
  const vault = standIn(() => started);

  const make = (body: object) =>
    vault.must<Application>(201, {
      method: 'POST',
      path: '/applications',
      key: vault.managementKey,
      body: { name: 'a', ...body },
    });

  beforeAll(async () => {
    started = await startVault();
    const rule = { description: 'all', priority: 1, container: '/', transform: 'reveal' };
    revealing = await make({ type: 'private', rules: [{ ...rule, permissions: everyTokenPermission }] });
    token = await vault.must<Token>(201, {
      method: 'POST',
      path: '/tokens',
      key: keyOf(revealing),
      body: { type: 'card', data: { number }, fingerprint_expression: '{{ data.number }}' },
    });
  });
  afterAll(() => vault.stop());

  return {
    vault,
    /** A private application that may do all with all tokens. */
    revealing: standIn(() => revealing),
    /** A card, made by `revealing`. */
    token: standIn(() => token),
    number,
    make,
    signIn: (key: string, headers: Record<string, string> = {}) => signIn(vault, key, headers),
    browser: (cookie: string) => browser(vault, cookie),
    /** A browser that has the management key and that of `revealing`. */
    signedIn: () => signedIn(vault, keyOf(revealing)),
    logOf: async (filters: Record<string, string>): Promise<LogEntry[]> => {
      const path = `/logs?${new URLSearchParams({ size: '100', ...filters }).toString()}`;
      return (await vault.must<{ data: LogEntry[] }>(200, { path, key: vault.managementKey })).data;
    },
  };
}
